package steelyard.hadoop.nutch;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.Set;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.lucene.store.BaseDirectory;
import org.apache.lucene.store.BufferedIndexInput;
import org.apache.lucene.store.IOContext;
import org.apache.lucene.store.IndexInput;
import org.apache.lucene.store.IndexOutput;
import org.apache.lucene.store.NoLockFactory;

/** An index in any file system of Hadoop, for reading. */
final class IndexFolder extends BaseDirectory {
  private final FileSystem files;
  private final Path folder;

  IndexFolder(FileSystem files, Path folder) {
    super(NoLockFactory.INSTANCE);
    this.files = files;
    this.folder = folder;
  }

  @Override
  public String[] listAll() throws IOException {
    return Arrays.stream(files.listStatus(folder)).map(FileStatus::getPath).map(Path::getName).sorted().toArray(
        String[]::new);
  }

  @Override
  public long fileLength(String name) throws IOException {
    return files.getFileStatus(new Path(folder, name)).getLen();
  }

  @Override
  public IndexInput openInput(String name, IOContext context) throws IOException {
    ensureOpen();
    return new Input(name, files.open(new Path(folder, name)), 0, fileLength(name), true);
  }

  @Override
  public void close() {
    isOpen = false;
  }

  @Override
  public Set<String> getPendingDeletions() {
    return Set.of();
  }

  @Override
  public void deleteFile(String name) {
    throw new UnsupportedOperationException("read-only");
  }

  @Override
  public IndexOutput createOutput(String name, IOContext context) {
    throw new UnsupportedOperationException("read-only");
  }

  @Override
  public IndexOutput createTempOutput(String prefix, String suffix, IOContext context) {
    throw new UnsupportedOperationException("read-only");
  }

  @Override
  public void sync(Collection<String> names) {
    throw new UnsupportedOperationException("read-only");
  }

  @Override
  public void syncMetaData() {
    throw new UnsupportedOperationException("read-only");
  }

  @Override
  public void rename(String source, String target) {
    throw new UnsupportedOperationException("read-only");
  }

  /** A file of the index, or a part of one. Parts share the stream, which reads at positions. */
  private static final class Input extends BufferedIndexInput {
    private final FSDataInputStream stream;
    private final long offset;
    private final long length;
    private final boolean owner;

    Input(String name, FSDataInputStream stream, long offset, long length, boolean owner) {
      super(name, MERGE_BUFFER_SIZE);
      this.stream = stream;
      this.offset = offset;
      this.length = length;
      this.owner = owner;
    }

    @Override
    protected void readInternal(ByteBuffer buffer) throws IOException {
      byte[] bytes = new byte[buffer.remaining()];
      long at = getFilePointer();
      if (at + bytes.length > length) {
        throw new EOFException(this + ": read past its end");
      }
      stream.readFully(offset + at, bytes, 0, bytes.length);
      buffer.put(bytes);
    }

    @Override
    protected void seekInternal(long position) {}

    @Override
    public long length() {
      return length;
    }

    @Override
    public IndexInput slice(String description, long from, long size) {
      return new Input(getFullSliceDescription(description), stream, offset + from, size, false);
    }

    @Override
    public Input clone() {
      // The buffer of a clone is its own; the stream is not.
      Input copy = new Input(toString(), stream, offset, length, false);
      try {
        copy.seek(getFilePointer());
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
      return copy;
    }

    @Override
    public void close() throws IOException {
      if (owner) {
        stream.close();
      }
    }
  }
}
