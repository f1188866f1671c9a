package steelyard.hadoop.nutch;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat;
import org.apache.lucene.document.Document;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.Term;
import org.apache.lucene.index.Terms;
import org.apache.lucene.index.TermsEnum;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.util.BytesRef;
import steelyard.hadoop.Jobs;
import steelyard.hadoop.NumberedInputFormat;
import steelyard.hadoop.Numbers;
import steelyard.hadoop.Options;
import steelyard.hadoop.Words;
import steelyard.hadoop.Workload;

/**
 * Nutch's indexing: a crawl is parsed by map tasks, and indexed with Lucene by reduce tasks.
 *
 * <p>Results are checked by queries whose hits were counted when the crawl was made, and by a checksum over terms
 * and documents that depends on neither the order of pages nor the number of tasks.
 */
public final class Nutch implements Workload {
  static final String SEED = "steelyard.nutch.seed";
  static final String PAGES = "steelyard.nutch.pages";
  static final String INDEX_BUFFER = "steelyard.nutch.index.buffer.mb";
  private static final String CRAWL = "crawl";
  private static final String[] FIELDS = {"url", "title", "content", "anchor"};

  private final Jobs jobs;
  private final Options options;

  public Nutch(Jobs jobs, Options options) {
    this.jobs = jobs;
    this.options = options;
  }

  @Override
  public Map<String, Object> make(Path folder) throws Exception {
    Job job = jobs.make("crawl", Nutch.class);
    job.getConfiguration().setLong(SEED, options.count("data-seed"));
    job.getConfiguration().setLong(PAGES, options.count("pages"));
    NumberedInputFormat.set(job.getConfiguration(), options.count("pages"), (int) options.count("files"));
    job.setInputFormatClass(NumberedInputFormat.class);
    job.setMapperClass(CrawlMapper.class);
    job.setNumReduceTasks(0);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(Text.class);
    job.setOutputFormatClass(SequenceFileOutputFormat.class);
    FileOutputFormat.setCompressOutput(job, false);
    FileOutputFormat.setOutputPath(job, new Path(folder, CRAWL));
    Counters counters = jobs.run(job).getCounters();
    Map<String, Object> facts = new LinkedHashMap<>();
    for (Crawl counted : Crawl.values()) {
      facts.put(counted.name().toLowerCase(), counters.findCounter(counted).getValue());
    }
    return facts;
  }

  @Override
  public void run(String name, Path data, Map<String, Object> facts, Path output) throws Exception {
    Job job = jobs.make("index", Nutch.class);
    job.setInputFormatClass(SequenceFileInputFormat.class);
    SequenceFileInputFormat.addInputPath(job, new Path(data, CRAWL));
    job.setMapperClass(ParseMapper.class);
    job.setReducerClass(IndexReducer.class);
    job.setMapOutputKeyClass(Text.class);
    job.setMapOutputValueClass(Part.class);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(Document.class);
    job.setOutputFormatClass(IndexOutputFormat.class);
    FileOutputFormat.setOutputPath(job, output);
    jobs.run(job);
  }

  @Override
  public Map<String, Object> check(Path data, Map<String, Object> facts, Path output) throws Exception {
    FileSystem files = output.getFileSystem(jobs.settings());
    List<String> words = PageMaker.queries(new Words(options.count("data-seed")));
    Query first = new TermQuery(new Term("content", words.get(0)));
    Query second = new TermQuery(new Term("content", words.get(1)));
    Query third = new TermQuery(new Term("content", words.get(2)));
    Query both =
        new BooleanQuery.Builder().add(first, BooleanClause.Occur.MUST).add(second, BooleanClause.Occur.MUST).build();
    long documents = 0;
    long[] hits = new long[3];
    long checksum = 0;
    for (FileStatus part : files.listStatus(output, path -> path.getName().startsWith("part-"))) {
      try (DirectoryReader reader = DirectoryReader.open(new IndexFolder(files, part.getPath()))) {
        IndexSearcher searcher = new IndexSearcher(reader);
        documents += reader.numDocs();
        hits[0] += searcher.count(first);
        hits[1] += searcher.count(both);
        hits[2] += searcher.count(third);
        checksum += checksum(reader);
      }
    }
    List<Map<String, Object>> queries = new ArrayList<>();
    queries.add(query(words.get(0), hits[0], facts.get("with_first")));
    queries.add(query(words.get(0) + " AND " + words.get(1), hits[1], facts.get("with_first_and_second")));
    queries.add(query(words.get(2), hits[2], facts.get("with_third")));
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("checksum", Long.toHexString(checksum));
    result.put("documents", documents);
    result.put("queries", queries);
    return result;
  }

  private static Map<String, Object> query(String text, long hits, Object expected) {
    return Map.of("query", text, "hits", hits, "expected", expected);
  }

  /** Returns a sum over terms and documents, which is the same however documents are spread over indexes. */
  private static long checksum(DirectoryReader reader) throws Exception {
    long sum = 0;
    for (LeafReaderContext leaf : reader.leaves()) {
      for (String field : FIELDS) {
        Terms terms = leaf.reader().terms(field);
        if (terms == null) {
          continue;
        }
        TermsEnum each = terms.iterator();
        for (BytesRef term = each.next(); term != null; term = each.next()) {
          long hash = field.hashCode();
          for (int at = 0; at < term.length; at++) {
            hash = Numbers.mix(hash * 31 + term.bytes[term.offset + at]);
          }
          sum += hash * each.docFreq() + Numbers.mix(hash) * each.totalTermFreq();
        }
      }
      NumericDocValues inlinks = leaf.reader().getNumericDocValues("inlinks");
      while (inlinks != null && inlinks.nextDoc() != NumericDocValues.NO_MORE_DOCS) {
        sum += Numbers.mix(inlinks.longValue());
      }
    }
    return sum;
  }
}
