// Files of projects may be in another service than their backups. An error names the service that has failed.
import { ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'

export class FilesUnavailable extends ObjectsUnavailable {}

const naming = <T>(work: Promise<T>): Promise<T> =>
  work.catch(error => {
    throw error instanceof ObjectsUnavailable ? new FilesUnavailable(error.cause) : error
  })

/** Throws FilesUnavailable where the given one throws ObjectsUnavailable. */
export const liveFiles = (pieces: Pieces): Pick<Pieces, 'open' | 'write' | 'list'> => ({
  async open(...given) {
    const reader = await naming(pieces.open(...given))
    return { size: reader.size, fill: buffer => naming(reader.fill(buffer)), close: () => reader.close() }
  },
  async write(...given) {
    const writer = await naming(pieces.write(...given))
    return {
      append: chunks => naming(writer.append(chunks)),
      finish: () => naming(writer.finish()),
      abort: () => writer.abort(),
    }
  },
  async *list(folder) {
    const found = pieces.list(folder)[Symbol.asyncIterator]()
    for (;;) {
      const { done, value } = await naming(found.next())
      if (done) return
      yield value
    }
  },
})
