package steelyard.hadoop.bayes;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;

/** Weighs the terms of documents by TF-IDF, each document with length 1, and adds them to its class. */
public final class TrainMapper extends Mapper<Text, Text, Text, Weights> {
  private final Terms terms = new Terms();
  private final Text key = new Text();
  private final Weights value = new Weights();
  private final Map<String, Integer> labels = new HashMap<>();
  private Map<String, Long> documents;
  private double allDocuments;

  @Override
  protected void setup(Context context) throws IOException {
    Configuration settings = context.getConfiguration();
    for (String label : Bayes.labels(settings)) {
      labels.put(label, labels.size());
    }
    allDocuments = settings.getLong(Bayes.DOCUMENTS, 1);
    documents = Model.documents(settings);
  }

  @Override
  protected void map(Text label, Text text, Context context) throws IOException, InterruptedException {
    Map<String, Double> weighed = new HashMap<>();
    double square = 0.0;
    for (Map.Entry<String, Integer> term : terms.of(text.toString()).entrySet()) {
      Long with = documents.get(term.getKey());
      if (with != null) {
        double weight = Math.log1p(term.getValue()) * Math.log(allDocuments / with);
        square += weight * weight;
        weighed.put(term.getKey(), weight);
      }
    }
    double length = Math.sqrt(square);
    int number = labels.get(label.toString());
    for (Map.Entry<String, Double> term : weighed.entrySet()) {
      long units = Math.round(term.getValue() / length * Weights.UNITS);
      if (units != 0) {
        key.set(term.getKey());
        value.clear();
        value.add(number, units);
        context.write(key, value);
      }
    }
  }
}
