package steelyard.hadoop.bayes;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import steelyard.hadoop.Numbers;

/** Documents of a user's corpus, packed for jobs: those to train with and those held out, by a hash of their name. */
final class Pack implements AutoCloseable {
  private final long seed;
  private final double trainingRatio;
  private final SequenceFile.Writer[] writers;
  private final long[] documents = new long[2];
  private final long[] bytes = new long[2];
  private final Map<String, long[]> ofClass = new TreeMap<>();

  Pack(Configuration settings, Path target, long seed, double trainingRatio) throws IOException {
    this.seed = seed;
    this.trainingRatio = trainingRatio;
    writers =
        new SequenceFile.Writer[] {
          writer(settings, target, Bayes.TRAINING), writer(settings, target, Bayes.HELD_OUT)
        };
  }

  void add(String label, String name, Text text) throws IOException {
    if (label.chars().anyMatch(Character::isISOControl)) {
      throw new IOException("the name of class '" + label.replaceAll("\\p{Cntrl}", "?") + "' has a control character");
    }
    int part = new Numbers(seed, name.hashCode(), name.length()).happens(trainingRatio) ? 0 : 1;
    writers[part].append(new Text(label), text);
    documents[part]++;
    bytes[part] += text.getLength();
    ofClass.computeIfAbsent(label, key -> new long[2])[part]++;
  }

  /** Returns the classes that have a document to train with. */
  List<String> labels() {
    return ofClass.entrySet().stream().filter(each -> each.getValue()[0] > 0).map(Map.Entry::getKey).toList();
  }

  /** Returns what there is to know of the documents. Fails where they are none to train and test with. */
  Map<String, Object> facts(String source) throws IOException {
    if (labels().size() < 2 || documents[1] == 0) {
      throw new IOException(
          source + " has " + labels().size() + " classes with documents for training and " + documents[1]
              + " held-out documents: at least 2 and 1 are needed");
    }
    Map<String, Object> facts = new LinkedHashMap<>();
    facts.put("training_documents", documents[0]);
    facts.put("held_out_documents", documents[1]);
    facts.put("training_bytes", bytes[0]);
    facts.put("held_out_bytes", bytes[1]);
    facts.put("labels", labels());
    return facts;
  }

  @Override
  public void close() throws IOException {
    for (SequenceFile.Writer writer : writers) {
      writer.close();
    }
  }

  private static SequenceFile.Writer writer(Configuration settings, Path target, String part) throws IOException {
    return SequenceFile.createWriter(
        settings,
        SequenceFile.Writer.file(new Path(target, part + "/part-00000")),
        SequenceFile.Writer.keyClass(Text.class),
        SequenceFile.Writer.valueClass(Text.class),
        SequenceFile.Writer.compression(SequenceFile.CompressionType.NONE));
  }
}
