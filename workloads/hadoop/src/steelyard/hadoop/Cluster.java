package steelyard.hadoop;

import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer;
import org.apache.hadoop.mapreduce.v2.jobhistory.JHAdminConfig;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.server.nodemanager.Context;
import org.apache.hadoop.yarn.server.nodemanager.LocalDirsHandlerService;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.nodemanager.ResourceView;
import org.apache.hadoop.yarn.server.nodemanager.webapp.WebServer;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.server.security.ApplicationACLsManager;

/**
 * A YARN cluster of one machine in one process: resource manager, node manager, history server.
 *
 * <p>In: settings of the class path, whose ports may be 0. Out: the same settings with the ports in use, written under
 * their name only when all three answer and the node is registered. SIGTERM stops the services.
 *
 * <p>Not here: web pages of resource manager and node manager, which nobody would look at and which take half of the
 * start; jobs, which run in processes of their own below the node manager.
 */
public final class Cluster {
  private static final long REGISTERED_TIMEOUT_MS = 120_000;

  /** How long the services may take to stop; what is left then ends with this process. */
  private static final long STOP_TIMEOUT_MS = 5_000;

  private static final int ENDED_BY_SIGTERM = 143;

  private Cluster() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 1) {
      System.err.println("usage: Cluster WRITTEN");
      System.exit(2);
    }
    // Several services in one process would claim the same names of metrics.
    DefaultMetricsSystem.setMiniClusterMode(true);
    Resources resources = new Resources();
    JobHistoryServer history = new JobHistoryServer();
    Node node = new Node();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(node, history, resources)));
    try {
      start(resources, new JobConf());
      Configuration known = resources.getConfig();
      start(node, new JobConf(known));
      start(history, known);
      long until = System.currentTimeMillis() + REGISTERED_TIMEOUT_MS;
      while (resources.getResourceScheduler().getNumClusterNodes() == 0) {
        if (System.currentTimeMillis() > until) {
          throw new IllegalStateException("the node manager did not register");
        }
        Thread.sleep(20);
      }
      known.set(JHAdminConfig.MR_HISTORY_ADDRESS, history.getConfig().get(JHAdminConfig.MR_HISTORY_ADDRESS));
      write(known, Path.of(arguments[0]));
    } catch (Throwable error) {
      System.err.println(Failures.reason(error));
      System.exit(3);
    }
    Thread.currentThread().join();
  }

  private static void start(Service service, Configuration settings) {
    service.init(settings);
    service.start();
  }

  private static void write(Configuration settings, Path path) throws Exception {
    Path partial = path.resolveSibling(path.getFileName() + ".partial");
    try (OutputStream file = new FileOutputStream(partial.toFile())) {
      settings.writeXml(file);
    }
    Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE);
  }

  private static void stop(Service... services) {
    Thread stopping =
        new Thread(
            () -> {
              for (Service service : services) {
                try {
                  service.stop();
                } catch (RuntimeException error) {
                  System.err.println(Failures.reason(error));
                }
              }
            });
    stopping.setDaemon(true);
    stopping.start();
    try {
      stopping.join(STOP_TIMEOUT_MS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    if (stopping.isAlive()) {
      Runtime.getRuntime().halt(ENDED_BY_SIGTERM);
    }
  }

  private static final class Resources extends ResourceManager {
    @Override
    protected void startWepApp() {}
  }

  private static final class Node extends NodeManager {
    @Override
    protected WebServer createWebServer(
        Context context, ResourceView view, ApplicationACLsManager access, LocalDirsHandlerService folders) {
      return new WebServer(context, view, access, folders) {
        @Override
        protected void serviceStart() {}

        @Override
        protected void serviceStop() {}
      };
    }
  }
}
