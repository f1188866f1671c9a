package steelyard.hadoop.bayes;

import java.util.Arrays;
import steelyard.hadoop.Numbers;
import steelyard.hadoop.Words;

/**
 * Texts of several classes. A text is a function of the seed and its number.
 *
 * <p>A share of a text's words is of its class's topic, the rest of running text. The share differs from text to text, from
 * nothing to {@link #MOST_TOPIC}: some texts say hardly what they are about.
 */
final class TextMaker {
  static final int TOPIC_WORDS = 2_000;
  static final double MOST_TOPIC = 0.2;
  static final double MEDIAN_WORDS = 150.0;
  static final double SIGMA = 1.0;
  static final double TAIL = 0.03;
  static final double TAIL_ALPHA = 1.3;
  static final int MOST_WORDS = 100_000;

  private static final int TOPIC = 4;
  private static final int TEXT = 5;
  private static final int COMMONEST = 100;

  private final long seed;
  private final int classes;
  private final double trainingRatio;
  private final Words words;
  private final int[][] topics;
  private final double[] topicShares = new double[TOPIC_WORDS];
  private final double[] topicSums = new double[TOPIC_WORDS];
  private final int[][] classesOf = new int[Words.COUNT][];
  private final double[][] sharesOf = new double[Words.COUNT][];
  private int label;
  private boolean training;
  private boolean recognisable;

  TextMaker(long seed, int classes, double trainingRatio) {
    this.seed = seed;
    this.classes = classes;
    this.trainingRatio = trainingRatio;
    this.words = new Words(seed);
    double sum = 0.0;
    for (int at = 0; at < TOPIC_WORDS; at++) {
      topicShares[at] = 1.0 / (at + 10.0);
      sum += topicShares[at];
    }
    double below = 0.0;
    for (int at = 0; at < TOPIC_WORDS; at++) {
      topicShares[at] /= sum;
      below += topicShares[at];
      topicSums[at] = below;
    }
    topics = new int[classes][];
    for (int of = 0; of < classes; of++) {
      topics[of] = topic(of);
    }
  }

  /** Returns the words of a class's topic: any but the commonest, each rank's order of magnitude as often. */
  private int[] topic(int of) {
    Numbers numbers = new Numbers(seed, TOPIC, of);
    int[] ranks = new int[TOPIC_WORDS];
    double span = Math.log((double) Words.COUNT / COMMONEST);
    boolean[] taken = new boolean[Words.COUNT];
    for (int at = 0; at < TOPIC_WORDS; at++) {
      int rank;
      do {
        rank = (int) (COMMONEST * Math.exp(numbers.unit() * span));
      } while (taken[rank]);
      taken[rank] = true;
      ranks[at] = rank;
      int known = classesOf[rank] == null ? 0 : classesOf[rank].length;
      classesOf[rank] = known == 0 ? new int[1] : Arrays.copyOf(classesOf[rank], known + 1);
      sharesOf[rank] = known == 0 ? new double[1] : Arrays.copyOf(sharesOf[rank], known + 1);
      classesOf[rank][known] = of;
      sharesOf[rank][known] = topicShares[at];
    }
    return ranks;
  }

  static String name(int label) {
    return String.format("class-%03d", label);
  }

  /** Returns a text; {@link #label}, {@link #isTraining} and {@link #isRecognisable} then tell of it. */
  String text(long number) {
    Numbers numbers = new Numbers(seed, TEXT, number);
    label = numbers.below(classes);
    training = numbers.happens(trainingRatio);
    int length = numbers.length(MEDIAN_WORDS, SIGMA, TAIL, TAIL_ALPHA, MOST_WORDS);
    double share = MOST_TOPIC * numbers.unit();
    double[] evidence = training ? null : new double[classes];
    StringBuilder text = new StringBuilder(8 * length);
    boolean begins = true;
    for (int at = 0; at < length; at++) {
      int rank = numbers.happens(share) ? topics[label][topicRank(numbers.unit())] : words.draw(numbers);
      if (evidence != null && classesOf[rank] != null) {
        weigh(evidence, rank, share);
      }
      String word = words.word(rank);
      text.append(begins ? Character.toUpperCase(word.charAt(0)) : word.charAt(0)).append(word, 1, word.length());
      begins = numbers.happens(0.07);
      text.append(begins ? ". " : numbers.happens(0.05) ? ", " : " ");
    }
    recognisable = evidence != null && best(evidence) == label;
    return text.toString();
  }

  private int topicRank(double at) {
    int found = Arrays.binarySearch(topicSums, at);
    return Math.min(TOPIC_WORDS - 1, found < 0 ? -found - 1 : found);
  }

  /** Adds what a word says for each class to whoever knows how texts are made. */
  private void weigh(double[] evidence, int rank, double share) {
    double running = (1.0 - share) * words.share(rank);
    for (int at = 0; at < classesOf[rank].length; at++) {
      evidence[classesOf[rank][at]] += Math.log1p(share * sharesOf[rank][at] / running);
    }
  }

  private static int best(double[] evidence) {
    int best = 0;
    for (int at = 1; at < evidence.length; at++) {
      if (evidence[at] > evidence[best]) {
        best = at;
      }
    }
    return best;
  }

  int label() {
    return label;
  }

  boolean isTraining() {
    return training;
  }

  /** Returns whether the likeliest class of the text is its own, to whoever knows how it was made. */
  boolean isRecognisable() {
    return recognisable;
  }
}
