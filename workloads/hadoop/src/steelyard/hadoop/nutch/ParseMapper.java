package steelyard.hadoop.nutch;

import java.io.IOException;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;
import org.jsoup.Jsoup;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;
import org.jsoup.select.Elements;

/** Parses pages: their text by their URL, and the text of each link by the URL that it leads to. */
public final class ParseMapper extends Mapper<Text, Text, Text, Part> {
  private final Text target = new Text();
  private final Part part = new Part();

  @Override
  protected void map(Text url, Text html, Context context) throws IOException, InterruptedException {
    Document page = Jsoup.parse(html.toString(), url.toString());
    Elements links = page.select("a[href]");
    context.write(url, part.page(page.title(), page.body().text(), links.size()));
    for (Element link : links) {
      target.set(link.absUrl("href"));
      context.write(target, part.anchor(link.text()));
    }
  }
}
