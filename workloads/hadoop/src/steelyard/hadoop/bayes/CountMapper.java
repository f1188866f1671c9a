package steelyard.hadoop.bayes;

import java.io.IOException;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;

/** Counts documents by term. */
public final class CountMapper extends Mapper<Text, Text, Text, LongWritable> {
  private static final LongWritable ONE = new LongWritable(1);
  private final Terms terms = new Terms();
  private final Text key = new Text();

  @Override
  protected void map(Text label, Text text, Context context) throws IOException, InterruptedException {
    for (String term : terms.of(text.toString()).keySet()) {
      key.set(term);
      context.write(key, ONE);
    }
  }
}
