// How the bytes of a file go: not while somebody here reads them, and before the room they took is given back.
import type { Log } from '#src/kernel/log.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Ledger, StoredFile } from './ledger.ts'

export interface Removal {
  /** As long as it is held, nothing here removes its bytes. Answers how to let go. */
  hold(project: string, version: string): () => void
  /** Answers how many have gone now; those that are held go when the last has let go. */
  drop(project: string, files: readonly StoredFile[]): Promise<number>
  /** What cannot be removed now is found by the sweeper. */
  dropInPeace(project: string, files: readonly StoredFile[]): Promise<void>
}

interface Held {
  count: number
  /** To go when nobody holds it any more. */
  gone: StoredFile | undefined
}

export function createRemoval(pieces: Pieces, ledger: Ledger, log: Log): Removal {
  const held = new Map<string, Held>()

  async function drop(project: string, files: readonly StoredFile[]): Promise<number> {
    const free: StoredFile[] = []
    for (const file of files) {
      const holding = held.get(`${project}/${file.version}`)
      if (holding) holding.gone = file
      else free.push(file)
    }
    // Bytes first: what is not counted must not be there.
    await pieces.remove(free.flatMap(({ version, size }) => pieceNames(project, version, size)))
    await ledger.drop(
      project,
      free.map(({ version }) => version),
    )
    return free.length
  }

  const dropInPeace = (project: string, files: readonly StoredFile[]) =>
    drop(project, files).then(
      () => {},
      error => log.warn({ err: error, project }, 'bytes that nothing names are left to be swept up'),
    )

  return {
    hold(project, version) {
      const key = `${project}/${version}`
      const holding = held.get(key) ?? { count: 0, gone: undefined }
      held.set(key, holding)
      holding.count++
      return () => {
        holding.count--
        if (holding.count > 0) return
        held.delete(key)
        if (holding.gone) void dropInPeace(project, [holding.gone])
      }
    },
    drop,
    dropInPeace,
  }
}
