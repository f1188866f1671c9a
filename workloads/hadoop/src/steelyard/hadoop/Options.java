package steelyard.hadoop;

import java.util.LinkedHashMap;
import java.util.Map;

/** Options of the command line: {@code --name value}. */
public final class Options {
  private final Map<String, String> values = new LinkedHashMap<>();

  Options(String[] arguments, int from) {
    for (int at = from; at < arguments.length; at += 2) {
      if (!arguments[at].startsWith("--") || at + 1 == arguments.length) {
        throw new IllegalArgumentException(arguments[at] + " is no option with a value");
      }
      values.put(arguments[at].substring(2), arguments[at + 1]);
    }
  }

  public String text(String name) {
    String value = values.get(name);
    if (value == null) {
      throw new IllegalArgumentException("--" + name + " is missing");
    }
    return value;
  }

  public boolean has(String name) {
    return !values.getOrDefault(name, "").isEmpty();
  }

  public long count(String name) {
    return Long.parseLong(text(name));
  }

  public double number(String name) {
    return Double.parseDouble(text(name));
  }
}
