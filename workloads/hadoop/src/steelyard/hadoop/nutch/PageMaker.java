package steelyard.hadoop.nutch;

import java.util.List;
import steelyard.hadoop.Numbers;
import steelyard.hadoop.Words;

/**
 * Pages of a crawl, as HTML. A page is a function of the seed and its number.
 *
 * <p>Words have the frequencies of English; lengths are log-normal with a Pareto tail; links are many on few pages, and few
 * pages are linked often (frequency falls with rank^-0.7). Beside text a page has what pages have: scripts, styles,
 * navigation, comments, entities, and paragraphs that nobody closed.
 */
final class PageMaker {
  static final double MEDIAN_WORDS = 300.0;
  static final double SIGMA = 1.0;
  static final double TAIL = 0.03;
  static final double TAIL_ALPHA = 1.3;
  static final int MOST_WORDS = 50_000;
  static final double MEDIAN_LINKS = 12.0;
  static final int MOST_LINKS = 2_000;
  static final double LINK_EXPONENT = 0.7;

  /** Ranks of the words that the fixed queries ask for. */
  static final int[] QUERIED = {40, 150, 2_000};

  private static final int PAGE = 2;
  private static final int TITLE = 3;
  private static final int HOSTS = 1_000;

  private final long seed;
  private final long pages;
  private final long stride;
  private final Words words;
  private final boolean[] seen = new boolean[QUERIED.length];
  private long links;

  PageMaker(long seed, long pages) {
    this.seed = seed;
    this.pages = pages;
    this.words = new Words(seed);
    // Popular pages are spread over the crawl: the stride has no divisor in common with the number of pages.
    long candidate = Math.max(1, (long) (pages * 0.6180339887));
    while (gcd(candidate, pages) != 1) {
      candidate++;
    }
    this.stride = candidate;
  }

  private static long gcd(long one, long other) {
    return other == 0 ? one : gcd(other, one % other);
  }

  static List<String> queries(Words words) {
    return List.of(words.word(QUERIED[0]), words.word(QUERIED[1]), words.word(QUERIED[2]));
  }

  String url(long number) {
    Numbers numbers = new Numbers(seed, TITLE, number);
    long host = numbers.rank(Math.min(HOSTS, pages), 0.5);
    return "http://host" + host + ".example/" + words.word(words.draw(numbers)) + "/" + number + ".html";
  }

  private String title(long number) {
    Numbers numbers = new Numbers(seed, TITLE, number);
    numbers.next();
    numbers.next();
    int length = 2 + numbers.below(4);
    StringBuilder title = new StringBuilder();
    for (int at = 0; at < length; at++) {
      title.append(at == 0 ? "" : " ").append(words.word(100 + numbers.below(20_000)));
    }
    return title.toString();
  }

  /** Returns a page; {@link #saw} and {@link #links} then tell of it. */
  String html(long number) {
    Numbers numbers = new Numbers(seed, PAGE, number);
    for (int at = 0; at < seen.length; at++) {
      seen[at] = false;
    }
    int length = numbers.length(MEDIAN_WORDS, SIGMA, TAIL, TAIL_ALPHA, MOST_WORDS);
    links = numbers.length(MEDIAN_LINKS, 0.8, TAIL, TAIL_ALPHA, MOST_LINKS);
    StringBuilder page = new StringBuilder(16 * length + 100 * (int) links + 2048);
    String title = title(number);
    head(page, title, numbers);
    page.append("<body class=\"page\">\n<div id=\"navigation\"><ul>\n");
    long linksLeft = links;
    for (int at = 0; at < Math.min(6, links); at++, linksLeft--) {
      page.append("<li>");
      link(page, numbers);
      page.append("</li>\n");
    }
    page.append("</ul></div>\n<div id=\"content\">\n<h1>").append(title).append("</h1>\n");
    mark(title);
    int wordsLeft = length;
    while (wordsLeft > 0 || linksLeft > 0) {
      int inParagraph = Math.min(wordsLeft, 20 + numbers.below(120));
      long linksHere = wordsLeft == 0 ? linksLeft : Math.min(linksLeft, (linksLeft * inParagraph) / wordsLeft + 1);
      paragraph(page, numbers, inParagraph, linksHere);
      wordsLeft -= inParagraph;
      linksLeft -= linksHere;
    }
    page.append("</div>\n<!-- page ").append(number).append(" -->\n</body>\n</html>\n");
    return page.toString();
  }

  private void head(StringBuilder page, String title, Numbers numbers) {
    page.append("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>").append(title);
    page.append("</title>\n<meta name=\"keywords\" content=\"").append(title.replace(' ', ',')).append("\">\n");
    page.append("<link rel=\"stylesheet\" href=\"/style.css\">\n<style>\n");
    for (int at = 0; at < 8; at++) {
      page.append(".c").append(numbers.below(1000)).append(" { margin: ").append(numbers.below(40));
      page.append("px; color: #").append(100_000 + numbers.below(800_000)).append("; }\n");
    }
    page.append("</style>\n<script>\nvar settings = {");
    for (int at = 0; at < 12; at++) {
      page.append("\"k").append(numbers.below(10_000)).append("\": ").append(numbers.below(1 << 30)).append(", ");
    }
    page.append("\"last\": 0};\nif (1 < settings.last && 2 > 1) { document.title = \"</b>\"; }\n</script>\n</head>\n");
  }

  private void paragraph(StringBuilder page, Numbers numbers, int length, long linksHere) {
    if (numbers.happens(0.2)) {
      page.append("<h2>");
      word(page, numbers);
      page.append(' ');
      word(page, numbers);
      page.append("</h2>\n");
    }
    page.append("<p class=\"c").append(numbers.below(1000)).append("\">");
    for (int at = 0; at < length; at++) {
      boolean bold = numbers.happens(0.03);
      page.append(bold ? "<b>" : "");
      word(page, numbers);
      page.append(bold ? "</b> " : numbers.happens(0.01) ? " &amp; " : numbers.happens(0.08) ? ". " : " ");
    }
    for (long at = 0; at < linksHere; at++) {
      link(page, numbers);
      page.append(' ');
    }
    page.append(numbers.happens(0.7) ? "</p>\n" : "\n");
  }

  private void word(StringBuilder page, Numbers numbers) {
    int rank = words.draw(numbers);
    for (int at = 0; at < QUERIED.length; at++) {
      seen[at] |= QUERIED[at] == rank;
    }
    page.append(words.word(rank));
  }

  private void link(StringBuilder page, Numbers numbers) {
    long target = (numbers.rank(pages, LINK_EXPONENT) * stride + seed % pages) % pages;
    String title = title(target);
    page.append("<a href=\"").append(url(target)).append("\">").append(title).append("</a>");
    mark(title);
  }

  private void mark(String text) {
    for (String each : text.split(" ")) {
      for (int at = 0; at < QUERIED.length; at++) {
        seen[at] |= words.word(QUERIED[at]).equals(each);
      }
    }
  }

  /** Returns whether the last page has the word of query {@code at}. */
  boolean saw(int at) {
    return seen[at];
  }

  /** Returns the links of the last page. */
  long links() {
    return links;
  }
}
