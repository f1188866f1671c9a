package steelyard.hadoop.nutch;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.index.ConcurrentMergeScheduler;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.store.FSDirectory;

/**
 * A Lucene index for each reduce task: written to the disk of the task's machine, merged into one segment, then
 * moved to the file system of the cluster, as Nutch does.
 */
public final class IndexOutputFormat extends FileOutputFormat<Text, Document> {
  @Override
  public RecordWriter<Text, Document> getRecordWriter(TaskAttemptContext context) throws IOException {
    File local = new File("index-" + context.getTaskAttemptID());
    IndexWriterConfig settings = new IndexWriterConfig(new StandardAnalyzer());
    settings.setRAMBufferSizeMB(context.getConfiguration().getDouble(Nutch.INDEX_BUFFER, 16.0));
    settings.setUseCompoundFile(false);
    // A task has one slot: merging beside it would take that of another.
    ConcurrentMergeScheduler merges = new ConcurrentMergeScheduler();
    merges.setMaxMergesAndThreads(2, 1);
    settings.setMergeScheduler(merges);
    IndexWriter writer = new IndexWriter(FSDirectory.open(local.toPath()), settings);
    Path target = getDefaultWorkFile(context, "");
    FileSystem files = target.getFileSystem(context.getConfiguration());
    return new Writer(writer, local, files, target);
  }

  private static final class Writer extends RecordWriter<Text, Document> {
    private final IndexWriter writer;
    private final File local;
    private final FileSystem files;
    private final Path target;

    Writer(IndexWriter writer, File local, FileSystem files, Path target) {
      this.writer = writer;
      this.local = local;
      this.files = files;
      this.target = target;
    }

    @Override
    public void write(Text url, Document document) throws IOException {
      writer.addDocument(document);
    }

    @Override
    public void close(TaskAttemptContext context) throws IOException {
      writer.forceMerge(1);
      writer.close();
      writer.getDirectory().close();
      Files.deleteIfExists(local.toPath().resolve(IndexWriter.WRITE_LOCK_NAME));
      files.mkdirs(target.getParent());
      files.moveFromLocalFile(new Path(local.getAbsoluteFile().toURI()), target);
    }
  }
}
