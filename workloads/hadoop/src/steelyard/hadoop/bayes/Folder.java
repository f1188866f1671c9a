package steelyard.hadoop.bayes;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.hadoop.io.Text;

/** A user's corpus: a folder with a folder for each class, whose files are documents. */
final class Folder {
  private static final int MOST_BYTES = 64 << 20;

  private Folder() {}

  /** Packs the documents below {@code source} for jobs; returns what there is to know of them. */
  static Map<String, Object> pack(Path source, Pack pack) throws IOException {
    long files = 0;
    long irregular = 0;
    long large = 0;
    for (Path folder : sorted(source)) {
      if (!Files.isDirectory(folder)) {
        irregular++;
        continue;
      }
      String label = folder.getFileName().toString();
      for (Path file : sorted(folder)) {
        files++;
        if (!Files.isRegularFile(file)) {
          irregular++;
        } else if (Files.size(file) > MOST_BYTES) {
          large++;
        } else {
          // What is no UTF-8 becomes replacement characters.
          Text text = new Text(new String(Files.readAllBytes(file), StandardCharsets.UTF_8));
          pack.add(label, source.relativize(file).toString(), text);
        }
      }
      if (!pack.labels().contains(label)) {
        throw new IOException(folder + " has no document for training");
      }
    }
    Map<String, Object> facts = new LinkedHashMap<>(pack.facts(source.toString()));
    facts.put("pages", files);
    facts.put("skipped", Map.of("files that are no regular ones", irregular, "files larger than 64 MiB", large));
    return facts;
  }

  private static List<Path> sorted(Path folder) throws IOException {
    try (Stream<Path> paths = Files.list(folder)) {
      return paths.sorted().toList();
    }
  }
}
