package steelyard.hadoop;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/** The numbers from 0 to a count as input of a job that generates data: each task has a range. */
public final class NumberedInputFormat extends InputFormat<LongWritable, NullWritable> {
  private static final String COUNT = "steelyard.numbers.count";
  private static final String TASKS = "steelyard.numbers.tasks";

  /** Lets {@code tasks} tasks have the numbers below {@code count}. */
  public static void set(Configuration settings, long count, int tasks) {
    settings.setLong(COUNT, count);
    settings.setInt(TASKS, tasks);
  }

  @Override
  public List<InputSplit> getSplits(JobContext context) {
    long count = context.getConfiguration().getLong(COUNT, 0);
    int tasks = context.getConfiguration().getInt(TASKS, 1);
    List<InputSplit> splits = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      splits.add(new Range(count * task / tasks, count * (task + 1) / tasks));
    }
    return splits;
  }

  @Override
  public RecordReader<LongWritable, NullWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
    return new Reader();
  }

  /** Numbers of one task. */
  public static final class Range extends InputSplit implements Writable {
    private long begin;
    private long end;

    public Range() {}

    Range(long begin, long end) {
      this.begin = begin;
      this.end = end;
    }

    @Override
    public long getLength() {
      return end - begin;
    }

    @Override
    public String[] getLocations() {
      return new String[0];
    }

    @Override
    public void write(DataOutput out) throws IOException {
      out.writeLong(begin);
      out.writeLong(end);
    }

    @Override
    public void readFields(DataInput in) throws IOException {
      begin = in.readLong();
      end = in.readLong();
    }
  }

  private static final class Reader extends RecordReader<LongWritable, NullWritable> {
    private final LongWritable key = new LongWritable();
    private Range range;
    private long next;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) {
      range = (Range) split;
      next = range.begin;
    }

    @Override
    public boolean nextKeyValue() {
      if (next >= range.end) {
        return false;
      }
      key.set(next++);
      return true;
    }

    @Override
    public LongWritable getCurrentKey() {
      return key;
    }

    @Override
    public NullWritable getCurrentValue() {
      return NullWritable.get();
    }

    @Override
    public float getProgress() {
      return range.getLength() == 0 ? 1.0f : (float) (next - range.begin) / range.getLength();
    }

    @Override
    public void close() {}
  }
}
