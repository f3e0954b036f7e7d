// Starts workers for projects and runs calls in them, in one of three ways: a warm worker for each project, a new worker
// for each call, or one worker for all projects without isolation.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { LogLine, LogsService } from '#src/services/logs/service.ts'
import type { SecretsService } from '#src/services/secrets/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { CodeCache } from './code-cache.ts'
import { type Mask, maskOf } from './masking.ts'
import { directoryName, makeOwnDir, type Place, removeLeftovers } from './place.ts'
import type { OpenPlatformSocket } from './platform-socket.ts'
import { allowedHostsOf } from './settings.ts'
import { pathsIn } from './worker/command.ts'
import { type HostFiles, openHostFiles } from './worker/host-files.ts'
import { createPool } from './worker/pool.ts'
import { createSingleUse } from './worker/single-use.ts'
import {
  type FirstFunction,
  maxMessage,
  type OutputLine,
  startWorker,
  type Variables,
  type Worker,
} from './worker/worker.ts'

export interface RuntimeSettings {
  isolation: 'per-project' | 'per-invocation' | 'shared'
  maxWorkers: number
  idleMs: number
  requestTimeoutMs: number
  startTimeoutMs: number
  backoff: { startMs: number; capMs: number; resetMs: number }
}

export interface RuntimeDeps {
  settings: RuntimeSettings
  place: Place
  codeCache: CodeCache
  secrets: Pick<SecretsService, 'reveal'>
  logs: LogsService
  log: Log
  baseUrl(): string
  outboundAllow: readonly string[]
  openPlatformSocket: OpenPlatformSocket
}

export interface Lease {
  worker: Worker
  /** Whether it was started for this call. */
  isCold: boolean
  /** Called once, after the answer was received. The answer may end when a promise that it returns resolves. */
  release(): Promise<void> | undefined
}

/** What a worker knows, by project. */
type Known = Map<string, { fingerprint: string; mask: Mask }>

const noRelease = () => undefined

export interface Runtime {
  /** A worker of the project, for one call of the named function. */
  lease(tenant: Tenant, fingerprint: string, first: FirstFunction): Lease | Promise<Lease>
  /** Stops the worker of a project that is not served any more. */
  drop(projectId: string): void
  health(): { status: 'ok'; workers: number; projects: string[]; mode?: 'per-invocation' }
  close(): Promise<void>
}

const defaultMemoryMb = 256
const sharedKey = 'shared'

export function createRuntime(deps: RuntimeDeps): Runtime {
  const { settings, place, codeCache, logs, log } = deps
  const poolSettings = { ...settings, drainMs: settings.requestTimeoutMs }
  const pool = createPool(poolSettings, log)
  const singleUse = createSingleUse(poolSettings, log)
  /** Of the projects whose workers run, or have run. */
  /** What the shared worker was told of each project. */
  const provided = new WeakMap<Worker, Known>()
  /** Workers end with their platform, but a platform that was killed leaves their directories. */
  const cleaned = removeLeftovers(place.runDir)
  let openedHostFiles: Promise<HostFiles> | undefined

  function hostFiles(): Promise<HostFiles> {
    openedHostFiles ??= openHostFiles(place.home, async (program, cache) => {
      const user = place.userOf(sharedKey)
      const paths = { ...pathsIn(join(place.runDir, directoryName())), cache }
      await makeOwnDir(paths.directory, user)
      await makeOwnDir(paths.temporary, user)
      await makeOwnDir(cache, user)
      return startWorker({
        deno: await place.deno(),
        host: program,
        paths,
        codeDir: paths.temporary,
        user,
        memoryMb: defaultMemoryMb,
        baseUrl: deps.baseUrl(),
        outboundAllow: [],
        hosts: [],
        variables: { project: '', secrets: {}, platform: {} },
        startTimeoutMs: settings.startTimeoutMs,
        firstName: '',
        onLine() {},
      })
    })
    openedHostFiles.catch(() => {
      openedHostFiles = undefined
    })
    return openedHostFiles
  }

  async function variablesOf(tenant: Tenant): Promise<Variables> {
    const url = `${deps.baseUrl()}/v1/${tenant.id}`
    return {
      project: tenant.id,
      secrets: Object.fromEntries(await deps.secrets.reveal(tenant.id)),
      platform: {
        SUPABASE_URL: url,
        SUPABASE_ANON_KEY: tenant.anonKey,
        SUPABASE_SERVICE_ROLE_KEY: tenant.serviceRoleKey,
        SUPABASE_JWKS: JSON.stringify({ keys: tenant.signingKeys.jwks() }),
        SB_REGION: 'local',
      },
    }
  }

  async function start(tenant: Tenant, first: FirstFunction): Promise<Worker> {
    await cleaned
    const isShared = settings.isolation === 'shared'
    const user = place.userOf(isShared ? sharedKey : tenant.id)
    const [deno, host, variables] = await Promise.all([place.deno(), hostFiles(), variablesOf(tenant)])
    const inRunDir = pathsIn(join(place.runDir, directoryName()))
    // Nothing of a call may be left for the next one, if each has a new worker.
    const isFresh = settings.isolation === 'per-invocation'
    const paths = isFresh
      ? inRunDir
      : { ...inRunDir, cache: join(place.cacheDir, isShared ? sharedKey : tenant.id) }
    await makeOwnDir(paths.directory, user)
    await makeOwnDir(paths.temporary, user)
    const program = await host.place(paths.cache, user)
    const closeSocket = await deps.openPlatformSocket(
      paths.platformSocket,
      isShared ? undefined : tenant.id,
      user,
    )
    const known: Known = new Map([[tenant.id, { fingerprint: '', mask: maskFor(tenant, variables) }]])
    try {
      const worker = await startWorker({
        deno,
        host: program,
        paths,
        codeDir: isShared ? place.codeDir : codeCache.directoryOf(tenant.id),
        user,
        memoryMb: tenant.quotas.function_memory_mb ?? defaultMemoryMb,
        baseUrl: deps.baseUrl(),
        outboundAllow: deps.outboundAllow,
        hosts: allowedHostsOf(tenant),
        variables: { ...variables, first },
        startTimeoutMs: settings.startTimeoutMs,
        firstName: first.name,
        // A shared worker is trusted to name the project of a line.
        onLine(line) {
          const projectId = (isShared && line.project) || tenant.id
          logs.append(projectId, () => outputLine(line, known.get(projectId)?.mask))
        },
      })
      provided.set(worker, known)
      void worker.ended.then(closeSocket)
      return worker
    } catch (error) {
      await closeSocket()
      await rm(paths.directory, { recursive: true, force: true })
      throw new Refusal('BOOT_ERROR', 'The worker of this project could not be started', { cause: error })
    }
  }

  /** The shared worker learns the variables of a project before its first call. */
  async function provide(worker: Worker, tenant: Tenant, fingerprint: string): Promise<void> {
    const known = provided.get(worker)!
    const before = known.get(tenant.id)
    if (before?.fingerprint === fingerprint) return
    const variables = await variablesOf(tenant)
    const mask = maskFor(tenant, variables)
    worker.provide(variables)
    // Calls that still run may print the values from before.
    known.set(tenant.id, {
      fingerprint,
      mask: (text, isCut) => mask(before?.mask(text, isCut) ?? text, isCut),
    })
  }

  async function leaseSingleUse(tenant: Tenant, fingerprint: string, first: FirstFunction): Promise<Lease> {
    const request = { key: tenant.id, fingerprint, start: () => start(tenant, first) }
    return { ...(await singleUse.lease(request)), isCold: true }
  }

  async function leaseShared(tenant: Tenant, fingerprint: string, first: FirstFunction): Promise<Lease> {
    const request = { key: sharedKey, fingerprint: sharedKey, start: () => start(tenant, first) }
    const lease = await pool.lease(request)
    await provide(lease.worker, tenant, fingerprint)
    return { ...lease, release: noRelease }
  }

  async function leaseNew(tenant: Tenant, fingerprint: string, first: FirstFunction): Promise<Lease> {
    const request = { key: tenant.id, fingerprint, start: () => start(tenant, first) }
    return { ...(await pool.lease(request)), release: noRelease }
  }

  return {
    lease(tenant, fingerprint, first) {
      if (settings.isolation === 'per-invocation') return leaseSingleUse(tenant, fingerprint, first)
      if (settings.isolation === 'shared') return leaseShared(tenant, fingerprint, first)
      const worker = pool.running(tenant.id, fingerprint)
      return worker ? { worker, isCold: false, release: noRelease } : leaseNew(tenant, fingerprint, first)
    },
    drop(projectId) {
      pool.drop(projectId)
    },
    health() {
      if (settings.isolation === 'per-invocation')
        return { status: 'ok', mode: 'per-invocation', workers: singleUse.size, projects: singleUse.keys() }
      return { status: 'ok', workers: pool.size, projects: pool.keys().filter(key => key !== sharedKey) }
    },
    async close() {
      await Promise.all([pool.close(), singleUse.close()])
      await (await openedHostFiles)?.close()
    },
  }
}

const maskFor = (tenant: Tenant, { secrets }: Variables): Mask =>
  maskOf([...Object.values(secrets), tenant.serviceRoleKey])

function outputLine({ name, level, message, requestId, version }: OutputLine, mask?: Mask): LogLine {
  return {
    source: 'functions',
    name: name ?? '',
    at: new Date().toISOString(),
    level,
    event: 'output',
    message: mask?.(message, message.length >= maxMessage) ?? '',
    request_id: requestId ?? null,
    facts: version === undefined ? {} : { version },
  }
}
