import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.Vector;

import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.generator.ZipfianGenerator;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * Prints what YCSB's core workloads A to F ask of a store: {@code java Operations.java RECORDS OPERATIONS}.
 *
 * <p>A line is the workload's letter, the operation and the key; a scan has the number of records behind it, an
 * insert and an update their fields, commas between, and the bytes of these. The first RECORDS inserts of a workload
 * are its load phase. Shares and laws are those of the files workloada to workloadf of YCSB. Lines of the workload z
 * are ranks of its Zipfian generator over RECORDS items, which the workloads hash onto their records.
 */
final class Operations extends DB {
  private static final String[][] WORKLOADS = {
    {"a", "readproportion=0.5", "updateproportion=0.5", "requestdistribution=zipfian"},
    {"b", "readproportion=0.95", "updateproportion=0.05", "requestdistribution=zipfian"},
    {"c", "readproportion=1", "updateproportion=0", "requestdistribution=zipfian"},
    {"d", "readproportion=0.95", "updateproportion=0", "insertproportion=0.05", "requestdistribution=latest"},
    {
      "e", "readproportion=0", "updateproportion=0", "scanproportion=0.95", "insertproportion=0.05",
      "requestdistribution=zipfian", "maxscanlength=100", "scanlengthdistribution=uniform"
    },
    {"f", "readproportion=0.5", "updateproportion=0", "readmodifywriteproportion=0.5", "requestdistribution=zipfian"},
  };

  private final String workload;
  private final PrintStream out;

  private Operations(String workload, PrintStream out) {
    this.workload = workload;
    this.out = out;
  }

  public static void main(String[] arguments) throws Exception {
    int records = Integer.parseInt(arguments[0]);
    int operations = Integer.parseInt(arguments[1]);
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16));
    for (String[] named : WORKLOADS) {
      Properties properties = new Properties();
      properties.setProperty("recordcount", arguments[0]);
      properties.setProperty("operationcount", arguments[1]);
      for (int i = 1; i < named.length; i++) {
        String[] parts = named[i].split("=");
        properties.setProperty(parts[0], parts[1]);
      }
      Measurements.setProperties(properties);
      CoreWorkload workload = new CoreWorkload();
      workload.init(properties);
      Object state = workload.initThread(properties, 0, 1);
      DB store = new Operations(named[0], out);
      for (int i = 0; i < records; i++) {
        workload.doInsert(store, state);
      }
      for (int i = 0; i < operations; i++) {
        workload.doTransaction(store, state);
      }
    }
    ZipfianGenerator ranks = new ZipfianGenerator(records);
    for (int i = 0; i < operations; i++) {
      out.print("z read " + ranks.nextValue() + "\n");
    }
    out.flush();
  }

  private Status print(String operation, String key, String rest) {
    out.print(workload + " " + operation + " " + key + rest + "\n");
    return Status.OK;
  }

  private static String shape(Map<String, ByteIterator> values) {
    long bytes = 0;
    for (ByteIterator value : values.values()) {
      bytes += value.bytesLeft();
    }
    return " " + String.join(",", new TreeSet<>(values.keySet())) + " " + bytes;
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return print("read", key, "");
  }

  @Override
  public Status scan(
      String table, String key, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return print("scan", key, " " + count);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return print("update", key, shape(values));
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return print("insert", key, shape(values));
  }

  @Override
  public Status delete(String table, String key) {
    throw new UnsupportedOperationException("the core workloads delete nothing");
  }
}
