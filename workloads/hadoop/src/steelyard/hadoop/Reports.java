package steelyard.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.FileSystemCounter;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskCompletionEvent;
import org.apache.hadoop.mapreduce.TaskCounter;
import org.apache.hadoop.mapreduce.TaskReport;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter;

/**
 * What the history of a job says: times of tasks, and sums of their counters by phase.
 *
 * <p>Times are real time in milliseconds, as the history has them; whoever reads them knows the offset of the
 * monotonic clock.
 */
final class Reports {
  private static final int EVENTS = 1000;

  private Reports() {}

  /** Returns the report of a job that has ended, for JSON. */
  static Map<String, Object> of(String name, Job job) throws IOException, InterruptedException {
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("name", name);
    report.put("id", job.getJobID().toString());
    report.put("end_ms", job.getFinishTime());
    report.put("failed_attempts", failedAttempts(job));
    Map<String, Object> phases = new LinkedHashMap<>();
    phases.put("map", phase(job.getTaskReports(TaskType.MAP)));
    if (job.getNumReduceTasks() > 0) {
      phases.put("reduce", phase(job.getTaskReports(TaskType.REDUCE)));
    }
    report.put("phases", phases);
    return report;
  }

  private static int failedAttempts(Job job) throws IOException, InterruptedException {
    int failed = 0;
    int from = 0;
    TaskCompletionEvent[] events;
    while ((events = job.getTaskCompletionEvents(from, EVENTS)).length > 0) {
      for (TaskCompletionEvent event : events) {
        if (event.getStatus() != TaskCompletionEvent.Status.SUCCEEDED) {
          failed++;
        }
      }
      from += events.length;
    }
    return failed;
  }

  private static Map<String, Object> phase(TaskReport[] tasks) {
    long cpuMs = 0;
    long gcMs = 0;
    long inputRecords = 0;
    long inputBytes = 0;
    long outputRecords = 0;
    long outputBytes = 0;
    long spilledRecords = 0;
    long shuffledBytes = 0;
    long localRead = 0;
    long localWritten = 0;
    List<long[]> spans = new ArrayList<>();
    for (TaskReport task : tasks) {
      spans.add(new long[] {task.getStartTime(), task.getFinishTime()});
      Counters counters = task.getTaskCounters();
      cpuMs += value(counters, TaskCounter.CPU_MILLISECONDS);
      gcMs += value(counters, TaskCounter.GC_TIME_MILLIS);
      inputRecords +=
          value(counters, TaskCounter.MAP_INPUT_RECORDS) + value(counters, TaskCounter.REDUCE_INPUT_RECORDS);
      inputBytes += value(counters, FileInputFormatCounter.BYTES_READ);
      outputRecords +=
          value(counters, TaskCounter.MAP_OUTPUT_RECORDS) + value(counters, TaskCounter.REDUCE_OUTPUT_RECORDS);
      outputBytes += value(counters, FileOutputFormatCounter.BYTES_WRITTEN);
      spilledRecords += value(counters, TaskCounter.SPILLED_RECORDS);
      shuffledBytes += value(counters, TaskCounter.REDUCE_SHUFFLE_BYTES);
      localRead += counters.findCounter("file", FileSystemCounter.BYTES_READ).getValue();
      localWritten += counters.findCounter("file", FileSystemCounter.BYTES_WRITTEN).getValue();
    }
    Map<String, Object> phase = new LinkedHashMap<>();
    phase.put("tasks", tasks.length);
    phase.put("cpu_ms", cpuMs);
    phase.put("gc_ms", gcMs);
    phase.put("input_records", inputRecords);
    phase.put("input_bytes", inputBytes);
    phase.put("output_records", outputRecords);
    phase.put("output_bytes", outputBytes);
    phase.put("spilled_records", spilledRecords);
    phase.put("shuffled_bytes", shuffledBytes);
    phase.put("file_read_bytes", localRead);
    phase.put("file_written_bytes", localWritten);
    phase.put("spans_ms", spans);
    return phase;
  }

  private static long value(Counters counters, Enum<?> name) {
    return counters.findCounter(name).getValue();
  }
}
