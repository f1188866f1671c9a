package steelyard.hadoop;

import java.util.Map;
import org.apache.hadoop.fs.Path;

/** A benchmark of jobs: data that it makes once, jobs that are measured, and results that are checked. */
public interface Workload {
  /** Makes the data in {@code folder}, which is new; returns what there is to know of them. */
  Map<String, Object> make(Path folder) throws Exception;

  /** Runs the measured jobs over {@code data}; results go below {@code output}, which is new. */
  void run(String name, Path data, Map<String, Object> facts, Path output) throws Exception;

  /** Returns what the results of a run say, with a {@code checksum} that is equal for equal data. */
  Map<String, Object> check(Path data, Map<String, Object> facts, Path output) throws Exception;
}
