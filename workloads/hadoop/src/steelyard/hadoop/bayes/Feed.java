package steelyard.hadoop.bayes;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.io.Text;

/**
 * Documents that another process reads and writes to a named pipe, one after the other: class, name and text, each
 * behind the number of its bytes; then JSON behind {@link #END}, or a reason behind {@link #FAILED}.
 */
final class Feed {
  private static final int END = -1;
  private static final int FAILED = -2;
  private static final int BUFFER_BYTES = 1 << 20;

  private Feed() {}

  /** Packs the documents that come through {@code pipe}; returns what there is to know of them. */
  static Map<String, Object> pack(Path pipe, Pack pack) throws IOException {
    try (DataInputStream input =
        new DataInputStream(new BufferedInputStream(Files.newInputStream(pipe), BUFFER_BYTES))) {
      int size;
      while ((size = input.readInt()) >= 0) {
        String label = text(input.readNBytes(size));
        String name = text(input.readNBytes(input.readInt()));
        byte[] text = input.readNBytes(input.readInt());
        pack.add(label, name, new Text(text));
      }
      String last = text(input.readNBytes(input.readInt()));
      if (size == FAILED) {
        throw new IOException(last);
      }
      Map<String, Object> counts = new ObjectMapper().readValue(last, new TypeReference<>() {});
      Map<String, Object> facts =
          new LinkedHashMap<>(pack.facts("the dump of " + counts.get("pages") + " pages"));
      facts.putAll(counts);
      return facts;
    } catch (EOFException error) {
      throw new IOException("the process that reads the dump ended early", error);
    }
  }

  private static String text(byte[] data) {
    return new String(data, StandardCharsets.UTF_8);
  }
}
