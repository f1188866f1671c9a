package steelyard.hadoop.bayes;

import java.io.IOException;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Reducer;

/** Keeps the terms that several documents have. */
public final class CountReducer extends Reducer<Text, LongWritable, Text, LongWritable> {
  /** Documents that a term must have: what one has alone cannot help with another. */
  static final long LEAST_DOCUMENTS = 2;

  private final LongWritable sum = new LongWritable();

  @Override
  protected void reduce(Text term, Iterable<LongWritable> counts, Context context)
      throws IOException, InterruptedException {
    long documents = 0;
    for (LongWritable count : counts) {
      documents += count.get();
    }
    if (documents >= LEAST_DOCUMENTS) {
      sum.set(documents);
      context.write(term, sum);
    }
  }
}
