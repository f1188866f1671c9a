package steelyard.hadoop.bayes;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;

/** The terms of a text and how often it has them, by Lucene's standard analyzer. */
final class Terms {
  private final StandardAnalyzer analyzer = new StandardAnalyzer();

  /** Returns term to count. */
  Map<String, Integer> of(String text) throws IOException {
    Map<String, Integer> counts = new HashMap<>();
    try (TokenStream stream = analyzer.tokenStream("text", text)) {
      CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        counts.merge(term.toString(), 1, Integer::sum);
      }
      stream.end();
    }
    return counts;
  }
}
