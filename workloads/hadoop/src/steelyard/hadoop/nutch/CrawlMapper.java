package steelyard.hadoop.nutch;

import java.io.IOException;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Mapper;

/** Makes pages of the crawl, and counts what the fixed queries will have to find. */
public final class CrawlMapper extends Mapper<LongWritable, NullWritable, Text, Text> {
  private final Text url = new Text();
  private final Text html = new Text();
  private PageMaker maker;

  @Override
  protected void setup(Context context) {
    maker =
        new PageMaker(
            context.getConfiguration().getLong(Nutch.SEED, 0), context.getConfiguration().getLong(Nutch.PAGES, 1));
  }

  @Override
  protected void map(LongWritable number, NullWritable nothing, Context context)
      throws IOException, InterruptedException {
    html.set(maker.html(number.get()));
    url.set(maker.url(number.get()));
    context.write(url, html);
    context.getCounter(Crawl.PAGES).increment(1);
    context.getCounter(Crawl.LINKS).increment(maker.links());
    context.getCounter(Crawl.HTML_BYTES).increment(html.getLength());
    context.getCounter(Crawl.WITH_FIRST).increment(maker.saw(0) ? 1 : 0);
    context.getCounter(Crawl.WITH_FIRST_AND_SECOND).increment(maker.saw(0) && maker.saw(1) ? 1 : 0);
    context.getCounter(Crawl.WITH_THIRD).increment(maker.saw(2) ? 1 : 0);
  }
}
