// Images rendered before. Here is what there is and when it was last asked for; the bytes are in a store that keeps
// them encrypted. Whoever asks has been let in to the original first.
import { randomUUID } from 'node:crypto'
import type { Log } from '#src/kernel/log.ts'
import { createTurnsByOwner } from '#src/kernel/turns.ts'
import type { Rendered } from './renderer.ts'

/** Names are ours: random, never used twice. */
export interface RenderStore {
  put(project: string, name: string, bytes: Buffer): Promise<void>
  get(project: string, name: string): Promise<Buffer | undefined>
  remove(project: string, name: string): Promise<void>
  clear(): Promise<void>
}

export interface RenderCache {
  /** From the cache, or made now; once for all who ask for the same meanwhile. */
  through(project: string, version: string, key: string, make: () => Promise<Rendered>): Promise<Rendered>
  /** All renders of a version, or of the project. */
  forget(project: string, version?: string): Promise<void>
}

interface Entry {
  project: string
  version: string
  id: string
  name: string
  contentType: string
  size: number
}

interface UnderWay {
  project: string
  version: string
  rendered: Promise<Rendered>
  isWanted: boolean
}

interface Share {
  bytes: number
  /** Least recently used first, as maps keep their order. */
  byUse: Map<string, Entry>
  byVersion: Map<string, Set<Entry>>
}

/** What a file takes beyond its bytes, and an entry here. */
const overhead = 4096
/** Results that wait to be written are held in memory; with a slow disk the rest is not kept. */
const maxWaiting = 16

export function createRenderCache(
  store: RenderStore,
  log: Log,
  maxBytes = 512 * 1024 * 1024,
  maxProjectBytes = maxBytes / 4,
): RenderCache {
  const shares = new Map<string, Share>()
  const byUse = new Map<string, Entry>()
  const underWay = new Map<string, UnderWay>()
  /** One write at a time, so that room is made for one at a time. */
  const turn = createTurnsByOwner(1, maxWaiting)
  let bytes = 0
  let isFailing = false
  // Of an earlier run nothing is known; what it left only takes room.
  const isEmptied = quietly(() => store.clear())

  /** A store that fails means that nothing was found; said once until it works again. */
  async function quietly<T>(work: () => Promise<T>): Promise<{ value: T } | undefined> {
    try {
      const value = await work()
      isFailing = false
      return { value }
    } catch (err) {
      if (!isFailing) log.warn({ err }, 'the cache of rendered images fails')
      isFailing = true
      return undefined
    }
  }

  function add(entry: Entry): void {
    const share = shares.get(entry.project) ?? { bytes: 0, byUse: new Map(), byVersion: new Map() }
    const ofVersion = share.byVersion.get(entry.version) ?? new Set()
    shares.set(entry.project, share)
    share.byVersion.set(entry.version, ofVersion.add(entry))
    share.byUse.set(entry.id, entry)
    byUse.set(entry.id, entry)
    share.bytes += entry.size
    bytes += entry.size
  }

  function use(entry: Entry): void {
    for (const order of [byUse, shares.get(entry.project)!.byUse]) {
      order.delete(entry.id)
      order.set(entry.id, entry)
    }
  }

  async function drop(entry: Entry): Promise<void> {
    const share = shares.get(entry.project)
    if (!share || byUse.get(entry.id) !== entry) return
    byUse.delete(entry.id)
    share.byUse.delete(entry.id)
    const ofVersion = share.byVersion.get(entry.version)!
    ofVersion.delete(entry)
    if (ofVersion.size === 0) share.byVersion.delete(entry.version)
    if (share.byUse.size === 0) shares.delete(entry.project)
    share.bytes -= entry.size
    bytes -= entry.size
    await quietly(() => store.remove(entry.project, entry.name))
  }

  /** The least recently used give way, over all projects and in one that has too much. */
  async function makeRoom(project: string): Promise<void> {
    for (;;) {
      const share = shares.get(project)
      if (share && share.bytes > maxProjectBytes) await drop(oldest(share.byUse))
      else if (bytes > maxBytes) await drop(oldest(byUse))
      else return
    }
  }

  async function keep(id: string, work: UnderWay, rendered: Rendered): Promise<void> {
    const { project, version } = work
    const size = rendered.bytes.length + overhead
    await isEmptied
    if (size > maxProjectBytes || !work.isWanted) return
    const { contentType } = rendered
    const entry: Entry = { project, version, id, name: randomUUID(), contentType, size }
    const former = byUse.get(id)
    if (former) void drop(former)
    // Counted, and room made, before it is written: there is never more on disk than allowed.
    add(entry)
    await makeRoom(project)
    const isKept = await quietly(() => store.put(project, entry.name, rendered.bytes))
    if (!isKept) await drop(entry)
    // Given up while it was being written: whoever did so found nothing to remove.
    else if (byUse.get(id) !== entry) await quietly(() => store.remove(project, entry.name))
  }

  async function find(id: string): Promise<Rendered | undefined> {
    const entry = byUse.get(id)
    if (!entry) return undefined
    use(entry)
    const found = await quietly(() => store.get(entry.project, entry.name))
    if (found?.value) return { bytes: found.value, contentType: entry.contentType }
    void drop(entry)
    return undefined
  }

  function begin(id: string, project: string, version: string, make: () => Promise<Rendered>): UnderWay {
    const work: UnderWay = { project, version, rendered: make(), isWanted: true }
    underWay.set(id, work)
    const done = () => {
      if (underWay.get(id) === work) underWay.delete(id)
    }
    // Answered as soon as it is made; whoever asks before it is kept gets the same.
    work.rendered.then(rendered => turn('write', () => keep(id, work, rendered))).then(done, done)
    return work
  }

  return {
    async through(project, version, key, make) {
      const id = JSON.stringify([project, version, key])
      const found = underWay.has(id) ? undefined : await find(id)
      if (found) return found
      return (underWay.get(id) ?? begin(id, project, version, make)).rendered
    },
    async forget(project, version) {
      for (const [id, work] of underWay) {
        if (work.project !== project || (version !== undefined && work.version !== version)) continue
        work.isWanted = false
        underWay.delete(id)
      }
      const share = shares.get(project)
      const entries = version === undefined ? share?.byUse.values() : share?.byVersion.get(version)
      await Promise.all([...(entries ?? [])].map(drop))
    },
  }
}

const oldest = (order: Map<string, Entry>): Entry => order.values().next().value!
