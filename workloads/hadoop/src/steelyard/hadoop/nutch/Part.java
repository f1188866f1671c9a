package steelyard.hadoop.nutch;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;

/** What a map task knows of one URL: the page itself, or the text of a link to it. */
public final class Part implements Writable {
  private boolean isPage;
  private int links;
  private String title = "";
  private String text = "";

  /** Becomes the page. */
  Part page(String title, String text, int links) {
    this.isPage = true;
    this.title = title;
    this.text = text;
    this.links = links;
    return this;
  }

  /** Becomes the text of a link. */
  Part anchor(String text) {
    this.isPage = false;
    this.title = "";
    this.text = text;
    this.links = 0;
    return this;
  }

  boolean isPage() {
    return isPage;
  }

  int links() {
    return links;
  }

  String title() {
    return title;
  }

  String text() {
    return text;
  }

  @Override
  public void write(DataOutput out) throws IOException {
    out.writeBoolean(isPage);
    if (isPage) {
      out.writeInt(links);
      Text.writeString(out, title);
    }
    Text.writeString(out, text);
  }

  @Override
  public void readFields(DataInput in) throws IOException {
    isPage = in.readBoolean();
    links = isPage ? in.readInt() : 0;
    title = isPage ? Text.readString(in) : "";
    text = Text.readString(in);
  }
}
