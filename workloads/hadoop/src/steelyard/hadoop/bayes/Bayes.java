package steelyard.hadoop.bayes;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.LazyOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat;
import org.apache.hadoop.mapreduce.lib.output.TextOutputFormat;
import org.apache.hadoop.mapreduce.lib.reduce.LongSumReducer;
import steelyard.hadoop.Jobs;
import steelyard.hadoop.NumberedInputFormat;
import steelyard.hadoop.Numbers;
import steelyard.hadoop.Options;
import steelyard.hadoop.Workload;

/**
 * Text classification: documents are counted by term, weights of terms are trained, held-out documents are
 * classified. Each is a job.
 */
public final class Bayes implements Workload {
  static final String SEED = "steelyard.bayes.seed";
  static final String CLASSES = "steelyard.bayes.classes";
  static final String TRAINING_RATIO = "steelyard.bayes.training.ratio";
  static final String LABELS = "steelyard.bayes.labels";
  /** Of names of classes, which may have commas but no control character. */
  private static final String SEPARATOR = "\t";
  static final String DOCUMENTS = "steelyard.bayes.documents";
  static final String COUNTS = "steelyard.bayes.counts";
  static final String MODEL = "steelyard.bayes.model";
  static final String TRAINING = "training";
  static final String HELD_OUT = "held-out";

  private final Jobs jobs;
  private final Options options;

  public Bayes(Jobs jobs, Options options) {
    this.jobs = jobs;
    this.options = options;
  }

  @Override
  public Map<String, Object> make(Path folder) throws Exception {
    if (options.has("corpus") || options.has("feed")) {
      try (Pack pack =
          new Pack(jobs.settings(), folder, options.count("data-seed"), options.number("training-ratio"))) {
        return options.has("feed")
            ? Feed.pack(java.nio.file.Path.of(options.text("feed")), pack)
            : Folder.pack(java.nio.file.Path.of(options.text("corpus")), pack);
      }
    }
    Job job = jobs.make("corpus", Bayes.class);
    Configuration settings = job.getConfiguration();
    settings.setLong(SEED, options.count("data-seed"));
    settings.setInt(CLASSES, (int) options.count("classes"));
    settings.setDouble(TRAINING_RATIO, options.number("training-ratio"));
    NumberedInputFormat.set(settings, options.count("documents"), (int) options.count("files"));
    job.setInputFormatClass(NumberedInputFormat.class);
    job.setMapperClass(CorpusMapper.class);
    job.setNumReduceTasks(0);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(Text.class);
    LazyOutputFormat.setOutputFormatClass(job, SequenceFileOutputFormat.class);
    FileOutputFormat.setCompressOutput(job, false);
    FileOutputFormat.setOutputPath(job, folder);
    Counters counters = jobs.run(job).getCounters();
    Map<String, Object> facts = new LinkedHashMap<>();
    for (Corpus counted : Corpus.values()) {
      facts.put(counted.name().toLowerCase(), counters.findCounter(counted).getValue());
    }
    return facts;
  }

  @Override
  public void run(String name, Path data, Map<String, Object> facts, Path output) throws Exception {
    Path counts = new Path(output, "counts");
    Job count = job("count", new Path(data, TRAINING), counts);
    count.setMapperClass(CountMapper.class);
    count.setCombinerClass(LongSumReducer.class);
    count.setReducerClass(CountReducer.class);
    count.setOutputKeyClass(Text.class);
    count.setOutputValueClass(LongWritable.class);
    count.setOutputFormatClass(SequenceFileOutputFormat.class);
    jobs.run(count);

    Path model = new Path(output, "model");
    String labels = String.join(SEPARATOR, labels(facts));
    Job train = job("train", new Path(data, TRAINING), model);
    train.getConfiguration().set(LABELS, labels);
    train.getConfiguration().set(DOCUMENTS, String.valueOf(facts.get("training_documents")));
    train.getConfiguration().set(COUNTS, counts.toString());
    train.setMapperClass(TrainMapper.class);
    train.setCombinerClass(WeightsReducer.class);
    train.setReducerClass(WeightsReducer.class);
    train.setOutputKeyClass(Text.class);
    train.setOutputValueClass(Weights.class);
    train.setOutputFormatClass(SequenceFileOutputFormat.class);
    jobs.run(train);

    Job classify = job("classify", new Path(data, HELD_OUT), new Path(output, "classes"));
    classify.getConfiguration().set(LABELS, labels);
    classify.getConfiguration().set(MODEL, model.toString());
    classify.setMapperClass(ClassifyMapper.class);
    classify.setCombinerClass(LongSumReducer.class);
    classify.setReducerClass(LongSumReducer.class);
    classify.setNumReduceTasks(1);
    classify.setOutputKeyClass(Text.class);
    classify.setOutputValueClass(LongWritable.class);
    classify.setOutputFormatClass(TextOutputFormat.class);
    jobs.run(classify);
  }

  private Job job(String name, Path input, Path output) throws Exception {
    Job job = jobs.make(name, Bayes.class);
    job.setInputFormatClass(SequenceFileInputFormat.class);
    SequenceFileInputFormat.addInputPath(job, input);
    FileOutputFormat.setCompressOutput(job, false);
    FileOutputFormat.setOutputPath(job, output);
    return job;
  }

  /** Returns the classes that a task's settings list. */
  static String[] labels(Configuration settings) {
    return settings.getRaw(LABELS).split(SEPARATOR);
  }

  /** Returns the classes by name. */
  private String[] labels(Map<String, Object> facts) {
    if (facts.get("labels") instanceof List<?> names) {
      return names.toArray(new String[0]);
    }
    String[] names = new String[(int) options.count("classes")];
    for (int label = 0; label < names.length; label++) {
      names[label] = TextMaker.name(label);
    }
    return names;
  }

  @Override
  public Map<String, Object> check(Path data, Map<String, Object> facts, Path output) throws Exception {
    Map<String, Long> confusion = new TreeMap<>();
    Path classes = new Path(output, "classes");
    FileSystem files = classes.getFileSystem(jobs.settings());
    for (FileStatus part : files.listStatus(classes, path -> path.getName().startsWith("part-"))) {
      try (BufferedReader lines =
          new BufferedReader(new InputStreamReader(files.open(part.getPath()), StandardCharsets.UTF_8))) {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          int last = line.lastIndexOf('\t');
          confusion.merge(line.substring(0, last), Long.valueOf(line.substring(last + 1)), Long::sum);
        }
      }
    }
    long documents = 0;
    long right = 0;
    long checksum = 0;
    Map<String, Long> ofClass = new TreeMap<>();
    for (Map.Entry<String, Long> cell : confusion.entrySet()) {
      String[] names = cell.getKey().split("\t");
      documents += cell.getValue();
      right += names[0].equals(names[1]) ? cell.getValue() : 0;
      ofClass.merge(names[0], cell.getValue(), Long::sum);
      checksum += Numbers.mix(cell.getKey().hashCode()) * cell.getValue();
    }
    Configuration settings = new Configuration(jobs.settings());
    settings.set(MODEL, new Path(output, "model").toString());
    Model model = new Model(settings, labels(facts).length);
    Map<String, Object> result = new LinkedHashMap<>();
    result.put("checksum", Long.toHexString(checksum + model.checksum()));
    result.put("documents", documents);
    result.put("right", right);
    result.put("largest_class", ofClass.values().stream().mapToLong(Long::longValue).max().orElse(0));
    result.put("terms", model.terms());
    result.put("confusion", confusion);
    return result;
  }
}
