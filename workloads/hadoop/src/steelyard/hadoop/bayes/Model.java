package steelyard.hadoop.bayes;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import steelyard.hadoop.Numbers;

/**
 * Complement naive Bayes (Rennie et al., ICML 2003, "Tackling the Poor Assumptions of Naive Bayes Text
 * Classifiers", WCNB): the class whose complement explains a text worst.
 */
final class Model {
  static final double SMOOTHING = 1.0;
  private final Map<String, Integer> numbers = new HashMap<>();
  private float[][] weights;
  private long checksum;

  /** Visits the records of a job's output. */
  private interface Visit<V> {
    void accept(String key, V value) throws IOException;
  }

  private static <V extends Writable> void read(Configuration settings, Path folder, V value, Visit<V> visit)
      throws IOException {
    FileSystem files = folder.getFileSystem(settings);
    for (FileStatus part : files.listStatus(folder, path -> path.getName().startsWith("part-"))) {
      Text key = new Text();
      try (SequenceFile.Reader reader = new SequenceFile.Reader(settings, SequenceFile.Reader.file(part.getPath()))) {
        while (reader.next(key, value)) {
          visit.accept(key.toString(), value);
        }
      }
    }
  }

  /** Returns how many documents have each term. */
  static Map<String, Long> documents(Configuration settings) throws IOException {
    Map<String, Long> documents = new HashMap<>();
    read(settings, new Path(settings.get(Bayes.COUNTS)), new LongWritable(), (t, n) -> documents.put(t, n.get()));
    return documents;
  }

  Model(Configuration settings, int classes) throws IOException {
    Map<String, long[]> sums = new HashMap<>();
    long[] ofClass = new long[classes];
    read(
        settings,
        new Path(settings.get(Bayes.MODEL)),
        new Weights(),
        (term, parts) -> {
          long[] ofTerm = new long[classes];
          parts.addTo(ofTerm);
          sums.put(term, ofTerm);
          for (int of = 0; of < classes; of++) {
            ofClass[of] += ofTerm[of];
            checksum += Numbers.mix(term.hashCode() * 31L + of) * ofTerm[of];
          }
        });
    weights = new float[sums.size()][];
    double all = 0.0;
    for (long sum : ofClass) {
      all += sum / Weights.UNITS;
    }
    double[] norms = new double[classes];
    double[][] exact = new double[sums.size()][];
    for (Map.Entry<String, long[]> term : sums.entrySet()) {
      double ofTerm = 0.0;
      for (long sum : term.getValue()) {
        ofTerm += sum / Weights.UNITS;
      }
      double[] weight = new double[classes];
      for (int of = 0; of < classes; of++) {
        double complement = ofTerm - term.getValue()[of] / Weights.UNITS + SMOOTHING;
        double complements = all - ofClass[of] / Weights.UNITS + SMOOTHING * sums.size();
        weight[of] = Math.log(complement / complements);
        norms[of] += Math.abs(weight[of]);
      }
      exact[numbers.size()] = weight;
      numbers.put(term.getKey(), numbers.size());
    }
    for (int at = 0; at < exact.length; at++) {
      weights[at] = new float[classes];
      for (int of = 0; of < classes; of++) {
        // Times the number of terms: weights then have a mean of 1, which floats hold well.
        weights[at][of] = (float) (exact[at][of] / norms[of] * exact.length);
      }
    }
  }

  /** Returns the class of a text. */
  int classify(Map<String, Integer> counts, int classes) {
    double[] scores = new double[classes];
    for (Map.Entry<String, Integer> term : counts.entrySet()) {
      Integer number = numbers.get(term.getKey());
      if (number != null) {
        float[] weight = weights[number];
        for (int of = 0; of < classes; of++) {
          scores[of] += term.getValue() * (double) weight[of];
        }
      }
    }
    int best = 0;
    for (int of = 1; of < classes; of++) {
      if (scores[of] < scores[best]) {
        best = of;
      }
    }
    return best;
  }

  int terms() {
    return numbers.size();
  }

  /** Returns a sum over all weights, whatever their order. */
  long checksum() {
    return checksum;
  }
}
