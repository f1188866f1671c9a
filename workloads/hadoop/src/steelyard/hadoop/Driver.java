package steelyard.hadoop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;
import steelyard.hadoop.bayes.Bayes;
import steelyard.hadoop.nutch.Nutch;

/**
 * Runs the jobs of a benchmark on a cluster, and prints a line of JSON for every step.
 *
 * <p>{@code Driver nutch|bayes --settings FILE --data URL --partial URL --output URL --warmups N --runs N ...}
 *
 * <p>After {@code "event":"warm"} it waits for a line on standard input: what follows is measured. Data stay in
 * {@code data} with the first result, which later runs are compared with; results below {@code output} are removed.
 */
public final class Driver {
  private static final String FACTS = "facts.json";
  private static final String RESULT = "result.json";
  private static final ObjectMapper JSON = new ObjectMapper();

  private Driver() {}

  public static void main(String[] arguments) {
    try {
      run(arguments);
    } catch (Throwable error) {
      System.err.println(Failures.reason(error));
      System.exit(1);
    }
    System.exit(0);
  }

  private static void run(String[] arguments) throws Exception {
    Options options = new Options(arguments, 1);
    JobConf settings = new JobConf();
    settings.addResource(java.nio.file.Path.of(options.text("settings")).toUri().toURL());
    Jobs jobs = new Jobs(settings);
    Workload workload =
        switch (arguments[0]) {
          case "nutch" -> new Nutch(jobs, options);
          case "bayes" -> new Bayes(jobs, options);
          default -> throw new IllegalArgumentException(arguments[0] + " is no benchmark");
        };
    jobs.reachCluster();
    print("ready", Map.of());
    Path data = new Path(options.text("data"));
    Path output = new Path(options.text("output"));
    FileSystem files = data.getFileSystem(settings);
    boolean made = !files.exists(new Path(data, FACTS));
    if (made) {
      Path partial = new Path(options.text("partial"));
      Map<String, Object> facts = workload.make(partial);
      write(files, new Path(partial, FACTS), facts);
      files.mkdirs(data.getParent());
      if (!files.rename(partial, data)) {
        throw new IllegalStateException(partial + " could not be renamed to " + data);
      }
    }
    Map<String, Object> facts = read(files, new Path(data, FACTS));
    Map<String, Object> event = new LinkedHashMap<>(facts);
    event.put("made", made);
    print("data", event);
    for (int number = 1; number <= options.count("warmups"); number++) {
      Path folder = new Path(output, "warm-up-" + number);
      workload.run("warm-up-" + number, data, facts, folder);
      files.delete(folder, true);
    }
    jobs.takeReports();
    print("warm", Map.of());
    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
    List<Path> outputs = new ArrayList<>();
    for (int number = 1; number <= options.count("runs"); number++) {
      String name = "run-" + number;
      Path folder = new Path(output, name);
      outputs.add(folder);
      long begin = System.nanoTime();
      workload.run(name, data, facts, folder);
      long end = System.nanoTime();
      Map<String, Object> run = new LinkedHashMap<>();
      run.put("name", name);
      run.put("begin_ns", begin);
      run.put("end_ns", end);
      run.put("jobs", jobs.takeReports());
      print("run", run);
    }
    Instant now = Instant.now();
    long realtime = now.getEpochSecond() * 1_000_000_000L + now.getNano();
    print("measured", Map.of("monotonic_ns", System.nanoTime(), "realtime_ns", realtime));
    check(workload, files, data, facts, outputs);
    files.delete(output, true);
  }

  private static void check(
      Workload workload, FileSystem files, Path data, Map<String, Object> facts, List<Path> outputs)
      throws Exception {
    Path known = new Path(data, RESULT);
    boolean first = !files.exists(known);
    List<Map<String, Object>> found = new ArrayList<>();
    for (Path output : outputs) {
      Map<String, Object> result = new LinkedHashMap<>(workload.check(data, facts, output));
      result.put("bytes", files.getContentSummary(output).getLength());
      result.put("name", output.getName());
      found.add(result);
    }
    Object expected = first ? found.get(0).get("checksum") : read(files, known).get("checksum");
    if (first) {
      write(files, known, Map.of("checksum", expected));
    }
    Map<String, Object> results = new LinkedHashMap<>();
    results.put("first_run", first);
    results.put("expected", expected);
    results.put("found", found);
    print("results", results);
  }

  private static void print(String event, Map<String, ?> fields) throws Exception {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    line.putAll(fields);
    System.out.println(JSON.writeValueAsString(line));
    System.out.flush();
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> read(FileSystem files, Path path) throws Exception {
    try (FSDataInputStream file = files.open(path)) {
      return JSON.readValue((java.io.InputStream) file, Map.class);
    }
  }

  private static void write(FileSystem files, Path path, Map<String, ?> document) throws Exception {
    try (FSDataOutputStream file = files.create(path)) {
      file.write(JSON.writeValueAsBytes(document));
    }
  }
}
