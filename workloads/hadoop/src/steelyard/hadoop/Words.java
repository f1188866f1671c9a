package steelyard.hadoop;

import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Invented words, the most frequent first, with the statistics of English text.
 *
 * <p>Words are made of syllables, frequent ones of fewer. Frequencies follow the law of Zipf with Mandelbrot's shift, with
 * the constants usually fitted to English. Drawing takes constant time (Walker's alias method).
 */
public final class Words {
  /** Different words. */
  public static final int COUNT = 100_000;

  private static final double EXPONENT = 1.0;
  private static final double SHIFT = 2.7;
  private static final int KIND = 1;
  private static final String[] ONSETS = {
    "b", "br", "d", "dr", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "v", ""
  };
  private static final String[] VOWELS = {"a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea"};
  private static final String[] CODAS = {"", "", "", "", "", "n", "r", "s", "l", "t", "nd", "m"};

  private final String[] words;
  private final double[] shares;
  private final double[] keep;
  private final int[] other;

  public Words(long seed) {
    words = make(new Numbers(seed, KIND, 0));
    shares = new double[COUNT];
    double sum = 0.0;
    for (int rank = 0; rank < COUNT; rank++) {
      shares[rank] = Math.pow(rank + 1 + SHIFT, -EXPONENT);
      sum += shares[rank];
    }
    for (int rank = 0; rank < COUNT; rank++) {
      shares[rank] /= sum;
    }
    keep = new double[COUNT];
    other = new int[COUNT];
    prepare();
  }

  private static String[] make(Numbers numbers) {
    Set<String> made = new LinkedHashSet<>();
    while (made.size() < COUNT) {
      int least = made.size() < 150 ? 1 : made.size() < 20_000 ? 2 : 3;
      int syllables = least == 1 ? 1 : least + (numbers.happens(0.25) ? 1 : 0);
      StringBuilder word = new StringBuilder();
      for (int at = 0; at < syllables; at++) {
        word.append(ONSETS[numbers.below(ONSETS.length)]);
        word.append(VOWELS[numbers.below(VOWELS.length)]);
        word.append(CODAS[numbers.below(CODAS.length)]);
      }
      made.add(word.toString());
    }
    return made.toArray(new String[0]);
  }

  private void prepare() {
    int[] small = new int[COUNT];
    int[] large = new int[COUNT];
    int smalls = 0;
    int larges = 0;
    double[] scaled = new double[COUNT];
    for (int at = 0; at < COUNT; at++) {
      scaled[at] = shares[at] * COUNT;
      if (scaled[at] < 1.0) {
        small[smalls++] = at;
      } else {
        large[larges++] = at;
      }
    }
    while (smalls > 0 && larges > 0) {
      int less = small[--smalls];
      int more = large[larges - 1];
      keep[less] = scaled[less];
      other[less] = more;
      scaled[more] -= 1.0 - scaled[less];
      if (scaled[more] < 1.0) {
        larges--;
        small[smalls++] = more;
      }
    }
    while (larges > 0) {
      keep[large[--larges]] = 1.0;
    }
    while (smalls > 0) {
      keep[small[--smalls]] = 1.0;
    }
  }

  public String word(int rank) {
    return words[rank];
  }

  /** Returns the share of running text that the word of {@code rank} has. */
  public double share(int rank) {
    return shares[rank];
  }

  /** Returns the rank of a word of running text. */
  public int draw(Numbers numbers) {
    double at = numbers.unit() * COUNT;
    int column = (int) at;
    return at - column < keep[column] ? column : other[column];
  }
}
