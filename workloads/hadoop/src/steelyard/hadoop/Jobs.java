package steelyard.hadoop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.Cluster;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskCompletionEvent;

/** Submits jobs one after the other, and keeps the report of each. */
public final class Jobs {
  /** Files of jars that a cluster does not have and tasks need; empty for a cluster that has them. */
  private static final String SHIPPED = "steelyard.shipped.jars";

  private static final Pattern TIME = Pattern.compile("\\[\\d{4}-\\d\\d-\\d\\d [\\d:.]+\\]");

  private final JobConf settings;
  private final List<Map<String, Object>> reports = new ArrayList<>();

  Jobs(JobConf settings) {
    this.settings = settings;
  }

  public Configuration settings() {
    return settings;
  }

  /** Returns a job with the settings of the cluster and of Steelyard. */
  public Job make(String name, Class<?> code) throws Exception {
    Job job = Job.getInstance(new JobConf(settings), name);
    job.setJarByClass(code);
    if (!settings.get(SHIPPED, "").isEmpty()) {
      job.getConfiguration().set("tmpjars", settings.get(SHIPPED));
    }
    return job;
  }

  /** Fails where no resource manager answers. */
  void reachCluster() throws Exception {
    Cluster cluster = new Cluster(settings);
    cluster.getClusterStatus();
    cluster.close();
  }

  /** Runs a job to its end. Fails with the reason of the first task that failed. */
  public Job run(Job job) throws Exception {
    job.submit();
    if (!job.waitForCompletion(false)) {
      throw new JobFailed("job " + job.getJobName() + " failed: " + reason(job));
    }
    reports.add(Reports.of(job.getJobName(), job));
    return job;
  }

  /** Returns the reports since the last call. */
  List<Map<String, Object>> takeReports() {
    List<Map<String, Object>> taken = List.copyOf(reports);
    reports.clear();
    return taken;
  }

  /** A job that did not succeed. */
  static final class JobFailed extends Exception {
    private static final long serialVersionUID = 1;

    JobFailed(String message) {
      super(message);
    }
  }

  private static String reason(Job job) throws Exception {
    for (TaskCompletionEvent event : job.getTaskCompletionEvents(0, 1000)) {
      if (event.getStatus() == TaskCompletionEvent.Status.SUCCEEDED) {
        continue;
      }
      String[] diagnostics = job.getTaskDiagnostics(event.getTaskAttemptId());
      String text = String.join(" ", diagnostics == null ? new String[0] : diagnostics).strip();
      String kind = event.isMapTask() ? "map" : "reduce";
      String end = event.getStatus() == TaskCompletionEvent.Status.KILLED ? " task was killed: " : " task failed: ";
      return "a " + kind + end + shortened(text);
    }
    return shortened(job.getStatus().getFailureInfo());
  }

  /** Returns the lines of an exception that say something, in one. */
  static String shortened(String text) {
    StringBuilder kept = new StringBuilder();
    String untimed = TIME.matcher(text == null ? "" : text).replaceAll("");
    for (String line : untimed.lines().map(String::strip).toList()) {
      if (line.isEmpty() || line.startsWith("at ") || line.startsWith("...") || kept.length() > 300) {
        continue;
      }
      kept.append(kept.length() == 0 ? "" : " ").append(line);
    }
    return kept.length() == 0 ? "no reason was given" : kept.toString();
  }
}
