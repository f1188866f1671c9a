package steelyard.hadoop.bayes;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.lib.output.MultipleOutputs;

/** Makes texts of the corpus, each in the folder of its part. */
public final class CorpusMapper extends Mapper<LongWritable, NullWritable, Text, Text> {
  private final Text label = new Text();
  private final Text text = new Text();
  private TextMaker maker;
  private MultipleOutputs<Text, Text> outputs;

  @Override
  protected void setup(Context context) {
    Configuration settings = context.getConfiguration();
    maker =
        new TextMaker(
            settings.getLong(Bayes.SEED, 0),
            settings.getInt(Bayes.CLASSES, 2),
            settings.getDouble(Bayes.TRAINING_RATIO, 0.2));
    outputs = new MultipleOutputs<>(context);
  }

  @Override
  protected void map(LongWritable number, NullWritable nothing, Context context)
      throws IOException, InterruptedException {
    text.set(maker.text(number.get()));
    label.set(TextMaker.name(maker.label()));
    boolean training = maker.isTraining();
    outputs.write(label, text, (training ? Bayes.TRAINING : Bayes.HELD_OUT) + "/part");
    context.getCounter(training ? Corpus.TRAINING_DOCUMENTS : Corpus.HELD_OUT_DOCUMENTS).increment(1);
    context.getCounter(training ? Corpus.TRAINING_BYTES : Corpus.HELD_OUT_BYTES).increment(text.getLength());
    context.getCounter(Corpus.RECOGNISABLE).increment(maker.isRecognisable() ? 1 : 0);
  }

  @Override
  protected void cleanup(Context context) throws IOException, InterruptedException {
    outputs.close();
  }
}
