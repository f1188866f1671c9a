package steelyard.hadoop.nutch;

import java.io.IOException;
import java.util.TreeSet;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.NumericDocValuesField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;

/** Joins a page with the texts of links to it, and indexes it. What is linked and was not crawled is left out. */
public final class IndexReducer extends Reducer<Text, Part, Text, Document> {
  /** Different texts of links that are indexed with a page: the first by alphabet, whatever the order of links. */
  static final int ANCHORS = 100;

  @Override
  protected void reduce(Text url, Iterable<Part> parts, Context context) throws IOException, InterruptedException {
    TreeSet<String> anchors = new TreeSet<>();
    long inlinks = 0;
    String title = null;
    String text = "";
    for (Part part : parts) {
      if (part.isPage()) {
        title = part.title();
        text = part.text();
        continue;
      }
      inlinks++;
      anchors.add(part.text());
      if (anchors.size() > ANCHORS) {
        anchors.pollLast();
      }
    }
    if (title == null) {
      return;
    }
    Document document = new Document();
    document.add(new StringField("url", url.toString(), Field.Store.YES));
    document.add(new TextField("title", title, Field.Store.YES));
    document.add(new TextField("content", text, Field.Store.NO));
    for (String anchor : anchors) {
      document.add(new TextField("anchor", anchor, Field.Store.NO));
    }
    document.add(new NumericDocValuesField("inlinks", inlinks));
    context.write(url, document);
  }
}
