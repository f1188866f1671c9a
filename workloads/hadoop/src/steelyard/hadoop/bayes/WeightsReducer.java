package steelyard.hadoop.bayes;

import java.io.IOException;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Reducer;

/** Sums of weights by term. */
public final class WeightsReducer extends Reducer<Text, Weights, Text, Weights> {
  private final Weights sum = new Weights();

  @Override
  protected void reduce(Text term, Iterable<Weights> parts, Context context) throws IOException, InterruptedException {
    sum.clear();
    for (Weights part : parts) {
      sum.add(part);
    }
    context.write(term, sum);
  }
}
