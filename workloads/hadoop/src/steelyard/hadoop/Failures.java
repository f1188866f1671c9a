package steelyard.hadoop;

/** Failures in one line. */
final class Failures {
  private Failures() {}

  /** Returns the innermost cause of an error, without its stack. */
  static String reason(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null && cause.getCause() != cause) {
      cause = cause.getCause();
    }
    String text = cause.getMessage() == null ? "" : cause.getMessage().strip().lines().findFirst().orElse("");
    if (cause instanceof Jobs.JobFailed) {
      return text;
    }
    String name = cause.getClass().getSimpleName();
    return text.isEmpty() ? name : text + " (" + name + ")";
  }
}
