package steelyard.hadoop.nutch;

/** What is counted when the crawl is made. */
enum Crawl {
  PAGES,
  LINKS,
  HTML_BYTES,
  WITH_FIRST,
  WITH_FIRST_AND_SECOND,
  WITH_THIRD
}
