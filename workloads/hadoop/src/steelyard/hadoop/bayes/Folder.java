package steelyard.hadoop.bayes;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.SequenceFile;
import org.apache.hadoop.io.Text;
import steelyard.hadoop.Numbers;

/** A user's corpus: a folder with a folder for each class, whose files are documents. */
final class Folder {
  private static final int MOST_BYTES = 64 << 20;

  private Folder() {}

  /** Packs the documents below {@code source} for jobs; returns what there is to know of them. */
  static Map<String, Object> pack(
      Configuration settings, Path source, org.apache.hadoop.fs.Path target, long seed, double trainingRatio)
      throws IOException {
    long[] documents = new long[2];
    long[] bytes = new long[2];
    int classes = 0;
    try (SequenceFile.Writer training = writer(settings, target, Bayes.TRAINING);
        SequenceFile.Writer heldOut = writer(settings, target, Bayes.HELD_OUT)) {
      for (Path folder : sorted(source)) {
        if (!Files.isDirectory(folder)) {
          continue;
        }
        classes++;
        long inClass = 0;
        for (Path file : sorted(folder)) {
          if (!Files.isRegularFile(file) || Files.size(file) > MOST_BYTES) {
            continue;
          }
          // What is no UTF-8 becomes replacement characters.
          Text text = new Text(new String(Files.readAllBytes(file), StandardCharsets.UTF_8));
          String name = source.relativize(file).toString();
          int part = new Numbers(seed, name.hashCode(), name.length()).happens(trainingRatio) ? 0 : 1;
          (part == 0 ? training : heldOut).append(new Text(folder.getFileName().toString()), text);
          documents[part]++;
          bytes[part] += text.getLength();
          inClass += part == 0 ? 1 : 0;
        }
        if (inClass == 0) {
          throw new IOException(folder + " has no document for training");
        }
      }
    }
    if (classes < 2 || documents[1] == 0) {
      throw new IOException(source + " has " + classes + " folders of classes and " + documents[1] + " held-out documents");
    }
    Map<String, Object> facts = new LinkedHashMap<>();
    facts.put("training_documents", documents[0]);
    facts.put("held_out_documents", documents[1]);
    facts.put("training_bytes", bytes[0]);
    facts.put("held_out_bytes", bytes[1]);
    return facts;
  }

  private static List<Path> sorted(Path folder) throws IOException {
    try (Stream<Path> paths = Files.list(folder)) {
      return paths.sorted().toList();
    }
  }

  private static SequenceFile.Writer writer(Configuration settings, org.apache.hadoop.fs.Path target, String part)
      throws IOException {
    return SequenceFile.createWriter(
        settings,
        SequenceFile.Writer.file(new org.apache.hadoop.fs.Path(target, part + "/part-00000")),
        SequenceFile.Writer.keyClass(Text.class),
        SequenceFile.Writer.valueClass(Text.class),
        SequenceFile.Writer.compression(SequenceFile.CompressionType.NONE));
  }
}
