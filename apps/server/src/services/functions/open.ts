// Opens the functions service: deployment, calls, workers and the internal port of the runtime.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { functionsApi, functionsManagementApi } from '@plinth/contract/functions.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { HttpServer } from '#src/kernel/http/server.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { createMeter, type RateLimits } from '#src/planes/data/meter.ts'
import type { Revocations } from '#src/planes/data/plane.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Opened } from '#src/planes/service.ts'
import type { LogsService } from '#src/services/logs/service.ts'
import type { SecretsService } from '#src/services/secrets/service.ts'
import type { UsageService } from '#src/services/usage/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { createArchives, unusedSeconds } from './archives.ts'
import { listUsedIds } from './archives-store.ts'
import { createCalls } from './call.ts'
import { createFindCallable } from './callable.ts'
import { createIdentify } from './callers.ts'
import { createCodeCache } from './code-cache.ts'
import { functionsRoutes } from './data-routes.ts'
import type { Registry } from './deploy/packages.ts'
import { type HealthPort, openHealthPort } from './health-port.ts'
import { functionsManagementRoutes } from './management-routes.ts'
import { locateFunctions, removeLeftovers } from './place.ts'
import { functionsPlane } from './plane.ts'
import { createOpenPlatformSocket } from './platform-socket.ts'
import { functionsData } from './project-data.ts'
import { deleteFunctions } from './project-data-store.ts'
import { createRuntime, type RuntimeSettings } from './runtime.ts'
import { type FunctionsService, functionsService } from './service.ts'
import { functionsTunnel } from './tunnel.ts'

export interface OpenFunctions {
  control: Database
  directory: Directory
  owner: OwnerWork
  pieces: Pieces
  sealer: Sealer
  log: Log
  windows: RateWindows
  baseUrl(): string
  revocations: Revocations
  rateLimits: RateLimits
  secrets: SecretsService
  logs: LogsService
  usage: Pick<UsageService, 'countInvocation'>
  dataDir: string
  /** For how long removed code is kept, for a recovery to a time. */
  keepRemovedDays: number
  outboundAllow: readonly string[]
  settings: RuntimeSettings & { port: number; registry: Registry; warnings: readonly string[] }
  /** Exists only after all services are open. */
  http(): Pick<HttpServer, 'listenOnSocket'>
}

const pruneEveryMs = 3_600_000

export function openFunctions(deps: OpenFunctions): Opened<FunctionsService> {
  const { control, directory, log, settings } = deps
  const place = locateFunctions(deps.dataDir)
  const closing = new AbortController()
  const archives = createArchives(control, deps.pieces, deps.sealer, { keepDays: deps.keepRemovedDays })
  const codeCache = createCodeCache(place, archives, settings.isolation === 'shared')
  const findCallable = createFindCallable(control)
  const runtime = createRuntime({
    ...deps,
    settings,
    place,
    codeCache,
    openPlatformSocket: createOpenPlatformSocket((path, guard) => deps.http().listenOnSocket(path, guard)),
  })
  const service = functionsService({
    ...deps,
    codeCache,
    build: { place, archives, registry: settings.registry, signal: closing.signal },
  })
  const calls = createCalls({
    ...deps,
    findCallable,
    codeCache,
    runtime,
    requestTimeoutMs: settings.requestTimeoutMs,
  })
  directory.onChange(id => void dropUnserved(id))
  void removeLeftovers(place.stagingDir).catch(error =>
    log.warn({ err: error }, 'files of interrupted deployments could not be removed'),
  )
  let health: HealthPort | undefined
  const pruning = startChore(
    {
      name: 'functions: remove code that is not used',
      everyMs: pruneEveryMs,
      async run() {
        await archives.removeUnused()
        await codeCache.prune(
          async projectId => new Set(await listUsedIds(control, projectId, unusedSeconds)),
        )
      },
    },
    log,
  )

  async function dropUnserved(id: string): Promise<void> {
    const tenant = await directory.read(id).catch(() => undefined)
    if (tenant?.status !== 'active') runtime.drop(id)
  }

  return {
    name: 'functions',
    service,
    mount(to) {
      to.management(functionsManagementApi, functionsManagementRoutes(service))
      to.data(
        functionsApi,
        functionsRoutes(calls.call, createIdentify(deps.revocations)),
        functionsPlane(findCallable),
      )
      to.tunnel(
        functionsTunnel({
          ...deps.revocations,
          directory,
          findCallable,
          meter: createMeter(deps.windows, deps.rateLimits),
          openSocket: calls.openSocket,
        }),
      )
    },
    hooks: {
      async removed(projectId) {
        runtime.drop(projectId)
        await deleteFunctions(control, projectId)
        await archives.removeAll(projectId)
        await codeCache.forget(projectId)
        await rm(join(place.cacheDir, projectId), { recursive: true, force: true })
      },
    },
    data: functionsData(archives),
    warnings: () => settings.warnings,
    metrics: [
      {
        name: 'plinth_function_workers',
        type: 'gauge',
        help: 'Workers of edge functions on this node.',
        read: () => runtime.health().workers,
      },
      {
        name: 'plinth_function_workers_max',
        type: 'gauge',
        help: 'Workers of edge functions that may run at once.',
        read: () => settings.maxWorkers,
      },
    ],
    start() {
      for (const warning of settings.warnings) log.warn(warning)
      openHealthPort(settings.port, runtime.health).then(
        opened => {
          health = opened
          log.info({ port: opened.port }, 'the runtime of functions answers on its internal port')
        },
        error =>
          log.warn(
            { err: error, port: settings.port },
            'RUNTIME_PORT is in use; the runtime has no health port',
          ),
      )
    },
    async close() {
      closing.abort()
      await pruning.stop()
      await health?.close()
      await runtime.close()
    },
  }
}
