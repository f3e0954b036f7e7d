// Cache of rendered images. It holds the index and the order of use; the bytes are in an encrypted store. Callers must check
// access to the original first.
import { randomUUID } from 'node:crypto'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Rendered } from './renderer.ts'

/** Names are random and never reused. */
export interface RenderStore {
  put(project: string, name: string, bytes: Buffer): Promise<void>
  get(project: string, name: string): Promise<Buffer | undefined>
  remove(project: string, name: string): Promise<void>
  clear(): Promise<void>
}

export interface RenderCache {
  /** Returns the cached image or renders it. Concurrent calls for the same image share one render. */
  getOrRender(
    project: string,
    version: string,
    key: string,
    render: () => Promise<Rendered>,
  ): Promise<Rendered>
  /** Removes all renders of a version, or of the project. */
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

interface InFlight {
  project: string
  version: string
  rendered: Promise<Rendered>
  isValid: boolean
}

interface ProjectEntries {
  bytes: number
  /** Least recently used first: maps iterate in insertion order. */
  byUse: Map<string, Entry>
  byVersion: Map<string, Set<Entry>>
}

/** Estimated size of the file metadata and the entry. */
const overhead = 4096
/** Results that wait to be written are in memory. If the disk is slow, further results are not cached. */
const maxWaiting = 16

export function createRenderCache(
  store: RenderStore,
  log: Log,
  maxBytes = 512 * 1024 * 1024,
  maxProjectBytes = maxBytes / 4,
): RenderCache {
  const projects = new Map<string, ProjectEntries>()
  const byUse = new Map<string, Entry>()
  const inFlight = new Map<string, InFlight>()
  /** One write at a time, so that evictions do not overlap. */
  const limit = createLimiter({ concurrency: 1, maxWaiting })
  let bytes = 0
  let isFailing = false
  // The index of an earlier process is lost, so its files only use disk space.
  const cleared = tryStore(() => store.clear())

  /** A failing store counts as a cache miss. It is logged once until the store works again. */
  async function tryStore<T>(job: () => Promise<T>): Promise<{ value: T } | undefined> {
    try {
      const value = await job()
      isFailing = false
      return { value }
    } catch (err) {
      if (!isFailing) log.warn({ err }, 'cache of rendered images fails; images are rendered again')
      isFailing = true
      return undefined
    }
  }

  function add(entry: Entry): void {
    const entries = projects.get(entry.project) ?? { bytes: 0, byUse: new Map(), byVersion: new Map() }
    const ofVersion = entries.byVersion.get(entry.version) ?? new Set()
    projects.set(entry.project, entries)
    entries.byVersion.set(entry.version, ofVersion.add(entry))
    entries.byUse.set(entry.id, entry)
    byUse.set(entry.id, entry)
    entries.bytes += entry.size
    bytes += entry.size
  }

  function use(entry: Entry): void {
    for (const order of [byUse, projects.get(entry.project)!.byUse]) {
      order.delete(entry.id)
      order.set(entry.id, entry)
    }
  }

  async function drop(entry: Entry): Promise<void> {
    const entries = projects.get(entry.project)
    if (!entries || byUse.get(entry.id) !== entry) return
    byUse.delete(entry.id)
    entries.byUse.delete(entry.id)
    const ofVersion = entries.byVersion.get(entry.version)!
    ofVersion.delete(entry)
    if (ofVersion.size === 0) entries.byVersion.delete(entry.version)
    if (entries.byUse.size === 0) projects.delete(entry.project)
    entries.bytes -= entry.size
    bytes -= entry.size
    await tryStore(() => store.remove(entry.project, entry.name))
  }

  /** Removes the least recently used entries, first of a project over its limit, then of all projects. */
  async function evict(project: string): Promise<void> {
    for (;;) {
      const entries = projects.get(project)
      if (entries && entries.bytes > maxProjectBytes) await drop(leastRecent(entries.byUse))
      else if (bytes > maxBytes) await drop(leastRecent(byUse))
      else return
    }
  }

  async function save(id: string, job: InFlight, rendered: Rendered): Promise<void> {
    const { project, version } = job
    const size = rendered.bytes.length + overhead
    await cleared
    if (size > maxProjectBytes || !job.isValid) return
    const { contentType } = rendered
    const entry: Entry = { project, version, id, name: randomUUID(), contentType, size }
    const former = byUse.get(id)
    if (former) void drop(former)
    // Count the entry and evict others before the write, so that the files never exceed the limit.
    add(entry)
    await evict(project)
    const isSaved = await tryStore(() => store.put(project, entry.name, rendered.bytes))
    if (!isSaved) await drop(entry)
    // The entry was dropped during the write, when there was no file to remove yet.
    else if (byUse.get(id) !== entry) await tryStore(() => store.remove(project, entry.name))
  }

  async function find(id: string): Promise<Rendered | undefined> {
    const entry = byUse.get(id)
    if (!entry) return undefined
    use(entry)
    const found = await tryStore(() => store.get(entry.project, entry.name))
    if (found?.value) return { bytes: found.value, contentType: entry.contentType }
    void drop(entry)
    return undefined
  }

  function startRender(
    id: string,
    project: string,
    version: string,
    render: () => Promise<Rendered>,
  ): InFlight {
    const job: InFlight = { project, version, rendered: render(), isValid: true }
    inFlight.set(id, job)
    const done = () => {
      if (inFlight.get(id) === job) inFlight.delete(id)
    }
    // Callers get the image before it is written. Calls until then share the result.
    job.rendered.then(rendered => limit('write', () => save(id, job, rendered))).then(done, done)
    return job
  }

  return {
    async getOrRender(project, version, key, render) {
      const id = JSON.stringify([project, version, key])
      const found = inFlight.has(id) ? undefined : await find(id)
      if (found) return found
      return (inFlight.get(id) ?? startRender(id, project, version, render)).rendered
    },
    async forget(project, version) {
      for (const [id, job] of inFlight) {
        if (job.project !== project || (version !== undefined && job.version !== version)) continue
        job.isValid = false
        inFlight.delete(id)
      }
      const entries = projects.get(project)
      const removed = version === undefined ? entries?.byUse.values() : entries?.byVersion.get(version)
      await Promise.all([...(removed ?? [])].map(drop))
    },
  }
}

const leastRecent = (order: Map<string, Entry>): Entry => order.values().next().value!
