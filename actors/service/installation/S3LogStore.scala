package tidemark

import java.io.ByteArrayOutputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Iterator => JavaIterator}

import io.delta.storage.S3SingleDriverLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.s3a.RemoteFileChangedException

/** Writes the commits of Delta tables in S3 so that of two writers of one version the store takes one (`If-None-Match`).
  *
  * Delta's own store for S3 looks first and writes afterwards, so only the writers of one JVM exclude each other.
  * A refusal may be the answer to a repeated request whose first one was taken. Delta then finds a commit of the same
  * application in that version, and reports a conflict. The writer looks which versions there are, as after any other.
  *
  * Source: Amazon S3 User Guide, "Conditional writes"; Hadoop, `FSDataOutputStreamBuilder`.
  */
class S3LogStore(configuration: Configuration) extends S3SingleDriverLogStore(configuration) {
  override def write(
      path: Path,
      actions: JavaIterator[String],
      overwrite: java.lang.Boolean,
      configuration: Configuration
  ): Unit =
    if (overwrite) super.write(path, actions, overwrite, configuration)
    else writeIfAbsent(path, actions, configuration)

  private def writeIfAbsent(path: Path, actions: JavaIterator[String], configuration: Configuration): Unit = {
    // The file appears when it is closed. So all of it is here before it is opened.
    val content = new ByteArrayOutputStream
    actions.forEachRemaining(action => content.write(s"$action\n".getBytes(UTF_8)))
    val store = path.getFileSystem(configuration)
    val file = store.createFile(path).recursive().must(FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true).build()
    try {
      content.writeTo(file)
      file.close()
    } catch {
      case refused: RemoteFileChangedException =>
        val there = new FileAlreadyExistsException(path.toString)
        there.initCause(refused)
        throw there
    }
  }
}
