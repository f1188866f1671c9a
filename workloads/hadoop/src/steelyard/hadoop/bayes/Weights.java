package steelyard.hadoop.bayes;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.io.WritableUtils;

/**
 * Weights of one term by class, sparse. They are whole millionths, so that sums do not depend on the order of
 * addition.
 */
public final class Weights implements Writable {
  static final double UNITS = 1e6;
  private int[] classes = new int[4];
  private long[] weights = new long[4];
  private int count;

  void clear() {
    count = 0;
  }

  void add(int label, long weight) {
    for (int at = 0; at < count; at++) {
      if (classes[at] == label) {
        weights[at] += weight;
        return;
      }
    }
    if (count == classes.length) {
      classes = Arrays.copyOf(classes, 2 * count);
      weights = Arrays.copyOf(weights, 2 * count);
    }
    classes[count] = label;
    weights[count++] = weight;
  }

  void add(Weights other) {
    for (int at = 0; at < other.count; at++) {
      add(other.classes[at], other.weights[at]);
    }
  }

  void addTo(long[] sums) {
    for (int at = 0; at < count; at++) {
      sums[classes[at]] += weights[at];
    }
  }

  @Override
  public void write(DataOutput out) throws IOException {
    WritableUtils.writeVInt(out, count);
    for (int at = 0; at < count; at++) {
      WritableUtils.writeVInt(out, classes[at]);
      WritableUtils.writeVLong(out, weights[at]);
    }
  }

  @Override
  public void readFields(DataInput in) throws IOException {
    count = WritableUtils.readVInt(in);
    if (count > classes.length) {
      classes = new int[count];
      weights = new long[count];
    }
    for (int at = 0; at < count; at++) {
      classes[at] = WritableUtils.readVInt(in);
      weights[at] = WritableUtils.readVLong(in);
    }
  }
}
