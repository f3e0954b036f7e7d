// Starts workers for projects and runs calls in them, in one of three ways: a warm worker for each project, a new worker
// for each call, or one worker for all projects without isolation.
import { randomUUID } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { isRunning, startTimeOf } from '#src/kernel/running-process.ts'
import type { LogsService } from '#src/services/logs/service.ts'
import type { SecretsService } from '#src/services/secrets/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { CodeCache } from './code-cache.ts'
import { maskOf } from './masking.ts'
import { makeOwnDir, type Place } from './place.ts'
import type { OpenPlatformSocket } from './platform-socket.ts'
import { pathsIn } from './worker/command.ts'
import { type HostFiles, openHostFiles } from './worker/host-files.ts'
import { createPool, createSingleUse } from './worker/pool.ts'
import { type OutputLine, startWorker, type Variables, type Worker } from './worker/worker.ts'

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
  /** Called once, after the answer was received. Resolves when the answer may end. */
  release(): Promise<void>
}

export interface Runtime {
  /** A worker of the project, for one call. */
  lease(tenant: Tenant, fingerprint: string): Promise<Lease>
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
  /** What the shared worker was told of each project. */
  const provided = new WeakMap<Worker, Map<string, string>>()
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
        onLine() {},
      })
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
        SB_REGION: 'local',
      },
    }
  }

  async function start(tenant: Tenant): Promise<Worker> {
    await cleaned
    const isShared = settings.isolation === 'shared'
    const user = place.userOf(isShared ? sharedKey : tenant.id)
    const [deno, host, variables] = await Promise.all([place.deno(), hostFiles(), variablesOf(tenant)])
    const paths = pathsIn(join(place.runDir, directoryName()))
    await makeOwnDir(paths.directory, user)
    await makeOwnDir(paths.temporary, user)
    await host.fillCache(paths.cache, user)
    const closeSocket = await deps.openPlatformSocket(
      paths.platformSocket,
      isShared ? undefined : tenant.id,
      user,
    )
    const mask = maskOf([...Object.values(variables.secrets), tenant.serviceRoleKey])
    try {
      const worker = await startWorker({
        deno,
        host: host.program,
        paths,
        codeDir: isShared ? place.codeDir : codeCache.directoryOf(tenant.id),
        user,
        memoryMb: tenant.quotas.function_memory_mb ?? defaultMemoryMb,
        baseUrl: deps.baseUrl(),
        outboundAllow: deps.outboundAllow,
        hosts: hostsOf(tenant),
        variables,
        startTimeoutMs: settings.startTimeoutMs,
        onLine: line => appendOutput(tenant.id, { ...line, message: mask(line.message) }),
      })
      provided.set(worker, new Map([[tenant.id, tenant.anonKey]]))
      void worker.ended.then(closeSocket)
      return worker
    } catch (error) {
      await closeSocket()
      await rm(paths.directory, { recursive: true, force: true })
      throw new Refusal('BOOT_ERROR', 'The worker of this project could not be started', { cause: error })
    }
  }

  function appendOutput(projectId: string, { name, level, message, requestId, version }: OutputLine): void {
    logs.append(projectId, {
      source: 'functions',
      name: name ?? '',
      at: new Date().toISOString(),
      level,
      event: 'output',
      message,
      request_id: requestId ?? null,
      facts: version === undefined ? {} : { version },
    })
  }

  /** The shared worker learns the variables of a project before its first call. */
  async function provide(worker: Worker, tenant: Tenant, fingerprint: string): Promise<void> {
    const known = provided.get(worker)!
    if (known.get(tenant.id) === fingerprint) return
    worker.provide(await variablesOf(tenant))
    known.set(tenant.id, fingerprint)
  }

  return {
    async lease(tenant, fingerprint) {
      if (settings.isolation === 'per-invocation')
        return { ...(await singleUse.lease(tenant.id, () => start(tenant))), isCold: true }
      const isShared = settings.isolation === 'shared'
      const { worker, isCold } = await pool.lease({
        key: isShared ? sharedKey : tenant.id,
        fingerprint: isShared ? sharedKey : fingerprint,
        start: () => start(tenant),
      })
      if (isShared) await provide(worker, tenant, fingerprint)
      return { worker, isCold, release: async () => {} }
    },
    drop: projectId => pool.drop(projectId),
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

/** A project's own list of hosts narrows what its functions may reach. */
function hostsOf({ settings }: Tenant): readonly string[] | undefined {
  const hosts = (settings['functions'] as { allowed_hosts?: unknown } | undefined)?.allowed_hosts
  return Array.isArray(hosts) ? hosts.filter(each => typeof each === 'string') : undefined
}

/** The process of the platform is part of the name, because several may use the same directory. */
const directoryName = () => `${process.pid}-${startTimeOf(process.pid) ?? ''}-${randomUUID().slice(0, 8)}`

/** Workers end with their platform. A platform that was killed leaves their directories. */
async function removeLeftovers(runDir: string): Promise<void> {
  for (const name of await readdir(runDir)) {
    const [pid, startTime] = name.split('-')
    if (!isRunning({ pid: Number(pid), startTime: startTime || undefined }))
      await rm(join(runDir, name), { recursive: true, force: true })
  }
}
