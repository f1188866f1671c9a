package steelyard.hadoop;

/**
 * Random numbers of a seed (SplitMix64, Steele et al. 2014), the same everywhere.
 *
 * <p>Numbers of a thing depend on the seed and its number only, so that any task makes the same thing.
 */
public final class Numbers {
  private static final long STEP = 0x9E3779B97F4A7C15L;
  private long state;

  /** Numbers of thing {@code number} of kind {@code kind}. */
  public Numbers(long seed, long kind, long number) {
    state = mix(mix(mix(seed + STEP) + kind * STEP) + number);
  }

  /** Returns a value in which every bit depends on every bit of {@code value}. */
  public static long mix(long value) {
    long mixed = (value ^ (value >>> 30)) * 0xBF58476D1CE4E5B9L;
    mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
    return mixed ^ (mixed >>> 31);
  }

  public long next() {
    state += STEP;
    return mix(state);
  }

  /** Returns a number from 0 inclusive to 1 exclusive. */
  public double unit() {
    return (next() >>> 11) * 0x1.0p-53;
  }

  /** Returns a whole number from 0 to {@code bound - 1}. */
  public int below(int bound) {
    return (int) (unit() * bound);
  }

  public boolean happens(double probability) {
    return unit() < probability;
  }

  /** Returns a normally distributed number (Box and Muller). */
  public double normal() {
    return Math.sqrt(-2.0 * Math.log(1.0 - unit())) * Math.cos(2.0 * Math.PI * unit());
  }

  /** Returns a length: log-normal around {@code median}, one in {@code 1/tail} Pareto from five times that. */
  public int length(double median, double sigma, double tail, double alpha, int most) {
    double drawn =
        happens(tail)
            ? 5.0 * median * Math.pow(1.0 - unit(), -1.0 / alpha)
            : median * Math.exp(sigma * normal());
    return (int) Math.max(1, Math.min(most, Math.round(drawn)));
  }

  /** Returns a rank from 0 whose frequency falls with {@code (rank + 1)^-exponent}, exponent below 1. */
  public long rank(long count, double exponent) {
    double power = 1.0 - exponent;
    double highest = Math.pow(count + 1.0, power);
    long rank = (long) Math.pow(unit() * (highest - 1.0) + 1.0, 1.0 / power) - 1;
    return Math.max(0, Math.min(count - 1, rank));
  }
}
