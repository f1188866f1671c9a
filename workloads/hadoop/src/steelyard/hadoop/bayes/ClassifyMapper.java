package steelyard.hadoop.bayes;

import java.io.IOException;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;

/** Classifies documents: counts by class and by what was found. */
public final class ClassifyMapper extends Mapper<Text, Text, Text, LongWritable> {
  private static final LongWritable ONE = new LongWritable(1);
  private final Terms terms = new Terms();
  private final Text key = new Text();
  private String[] labels;
  private Model model;

  @Override
  protected void setup(Context context) throws IOException {
    labels = Bayes.labels(context.getConfiguration());
    model = new Model(context.getConfiguration(), labels.length);
  }

  @Override
  protected void map(Text label, Text text, Context context) throws IOException, InterruptedException {
    int found = model.classify(terms.of(text.toString()), labels.length);
    key.set(label + "\t" + labels[found]);
    context.write(key, ONE);
  }
}
