// How the bytes of a file go: not while somebody here reads them, and before the room they took is given back.
import type { Log } from '#src/kernel/log.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import type { Ledger, StoredFile } from './ledger.ts'

export interface Removal {
  /** As long as it is held, nothing here removes its bytes. Answers how to let go. */
  hold(project: string, version: string): () => void
  /** Answers how many have gone now; those that are held go when the last has let go. */
  drop(project: string, files: readonly StoredFile[]): Promise<number>
  /** What cannot be removed now is found by the sweeper. */
  dropInPeace(project: string, files: readonly StoredFile[]): Promise<void>
  /** How long a version is stands in the ledger; what a row says may be anything. */
  dropVersions(project: string, versions: readonly string[]): Promise<void>
  /** A version that was replaced: it goes a little later, with others of the project. */
  dropSoon(project: string, version: string): void
  /** Those that were to go soon have gone. */
  settled(project: string): Promise<void>
  close(): Promise<void>
}

interface Held {
  count: number
  /** To go when nobody holds it any more. */
  gone: StoredFile | undefined
}

interface Replaced {
  versions: string[]
  timer: NodeJS.Timeout
}

/** Asking the ledger costs more than all the rest of a removal. */
const gatherMs = 30

export function createRemoval(pieces: Pieces, ledger: Ledger, log: Log): Removal {
  const held = new Map<string, Held>()
  const replaced = new Map<string, Replaced>()
  const dropping = new Map<string, Promise<void>>()

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

  async function dropVersions(project: string, versions: readonly string[]): Promise<void> {
    const known = versions.filter(isUuid)
    if (known.length > 0) await dropInPeace(project, await ledger.find(project, known))
  }

  /** After those before them; what fails is found by the sweeper. */
  function dropReplaced(project: string): void {
    const gathered = replaced.get(project)
    if (!gathered) return
    replaced.delete(project)
    clearTimeout(gathered.timer)
    const before = dropping.get(project) ?? Promise.resolve()
    const dropped = before
      .then(() => dropVersions(project, gathered.versions))
      .catch(error =>
        log.warn({ err: error, project }, 'versions that were replaced are left to be swept up'),
      )
      .finally(() => {
        if (dropping.get(project) === dropped) dropping.delete(project)
      })
    dropping.set(project, dropped)
  }

  async function settled(project: string): Promise<void> {
    dropReplaced(project)
    await dropping.get(project)
  }

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
    dropVersions,
    dropSoon(project, version) {
      const gathered = replaced.get(project)
      if (gathered) gathered.versions.push(version)
      else
        replaced.set(project, {
          versions: [version],
          timer: setTimeout(() => dropReplaced(project), gatherMs),
        })
    },
    settled,
    async close() {
      await Promise.all([...new Set([...replaced.keys(), ...dropping.keys()])].map(settled))
    },
  }
}
