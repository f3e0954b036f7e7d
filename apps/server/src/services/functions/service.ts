// Deploying, reading and deleting functions. A deployment is recorded in one transaction after its bytes are stored, so
// that a crash at any time leaves the version before it or the new one.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type EdgeFunction,
  type EdgeFunctionDetails,
  type Files,
  type FunctionLog,
  keptVersions,
} from '@plinth/contract/functions.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { LogsService } from '#src/services/logs/service.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { CodeCache } from './code-cache.ts'
import { type BuildDeps, buildVersion } from './deploy/build.ts'
import { type GivenSource, invalid, readSource } from './deploy/files.ts'
import * as store from './store.ts'

export interface FunctionsDeps {
  control: Database
  directory: Directory
  owner: Pick<OwnerWork, 'tenant'>
  codeCache: CodeCache
  build: BuildDeps
  logs: LogsService
}

export interface Deployment extends GivenSource {
  verify_jwt?: boolean
}

export interface LogsQuery {
  limit?: number
  after?: string
  level?: string
  request_id?: string
}

export type FunctionsService = ReturnType<typeof functionsService>

const defaultMaxFunctions = 200
const source = 'functions'
const logLimits = { usual: 100, most: 1000 }

export function functionsService({ control, directory, owner, codeCache, build, logs }: FunctionsDeps) {
  /** One deployment of a project at a time. */
  const limit = createLimiter({ perKey: 1, maxWaiting: 20 })

  async function find(projectId: string, name: string): Promise<store.FunctionRow> {
    const found = await store.findFunction(control, projectId, name)
    if (!found) throw notFound(name)
    return found
  }

  /** Other nodes learn of it within a quarter of a second. */
  async function change<T>(tenant: Tenant, work: (session: Session) => Promise<T>): Promise<T> {
    const result = await control.transaction(async session => {
      await store.lockProject(session, tenant.id)
      return work(session)
    })
    directory.forget(tenant.id)
    return result
  }

  /** Adds a version, and forgets those that a rollback can use no more. */
  async function addVersion(
    session: Session,
    projectId: string,
    { id, name, version }: store.FunctionRow,
    parts: store.VersionParts,
    verifyJwt: boolean,
  ): Promise<EdgeFunction> {
    const next = version + 1
    await store.insertVersion(session, projectId, id, next, parts)
    await store.setVersion(session, projectId, id, next, verifyJwt)
    await store.deleteOldVersions(session, projectId, id, next - keptVersions)
    return shown((await store.findFunction(session, projectId, name))!)
  }

  return {
    async list(projectId: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      const { functions, total } = await store.listFunctions(control, id, page)
      return { functions: functions.map(shown), total, ...page }
    },

    async create(projectId: string, name: string, deployment: Deployment): Promise<EdgeFunction> {
      const tenant = await owner.tenant(projectId)
      const given = await readSource(deployment)
      if (!given) throw invalid('Send the code of the function in "code" or "files"')
      const refuseIfImpossible = async (session: Session) => {
        if (await store.findFunction(session, tenant.id, name)) throw exists(name)
        const most = tenant.quotas.max_functions ?? defaultMaxFunctions
        if ((await store.countFunctions(session, tenant.id)) >= most)
          throw new Refusal('too_many_functions', `The project has ${most} functions; delete some of them`, {
            hint: 'The operator can raise the quota max_functions of the project.',
          })
      }
      await refuseIfImpossible(control)
      return limit(tenant.id, async () => {
        const parts = await buildVersion(build, tenant.id, given)
        return change(tenant, async session => {
          await refuseIfImpossible(session)
          const { id } = (await store.insertFunction(
            session,
            tenant.id,
            name,
            deployment.verify_jwt ?? true,
          ))!
          await store.insertVersion(session, tenant.id, id, 1, parts)
          return shown((await store.findFunction(session, tenant.id, name))!)
        })
      })
    },

    async read(projectId: string, name: string): Promise<EdgeFunctionDetails> {
      const { id } = await owner.tenant(projectId)
      const row = await find(id, name)
      const [directory, versions] = await Promise.all([
        codeCache.fetch(id, row),
        store.listVersions(control, id, row.id),
      ])
      const files = await readFiles(join(directory, 'src'))
      const entry = files[row.entrypoint]
      return {
        ...shown(row),
        code: typeof entry === 'string' ? entry : '',
        files,
        packages: [...row.packages],
        versions: versions.map(({ version, created_at }) => ({ version, created_at })),
      }
    },

    async update(projectId: string, name: string, deployment: Deployment): Promise<EdgeFunction> {
      const tenant = await owner.tenant(projectId)
      const { entrypoint } = await find(tenant.id, name)
      const given = await readSource(deployment, entrypoint)
      return limit(tenant.id, async () => {
        const parts = given && (await buildVersion(build, tenant.id, given))
        return change(tenant, async session => {
          const current = await store.findFunction(session, tenant.id, name)
          if (!current) throw notFound(name)
          const verifyJwt = deployment.verify_jwt ?? current.verify_jwt
          return addVersion(session, tenant.id, current, parts ?? current, verifyJwt)
        })
      })
    },

    async rollback(projectId: string, name: string, version: number): Promise<EdgeFunction> {
      const tenant = await owner.tenant(projectId)
      return change(tenant, async session => {
        const current = await store.findFunction(session, tenant.id, name)
        if (!current) throw notFound(name)
        const versions = await store.listVersions(session, tenant.id, current.id)
        const wanted = versions.find(each => each.version === version)
        if (!wanted)
          throw new Refusal('function_version_not_found', `The function has no version ${version}`, {
            hint: `It can be rolled back to ${versions.map(each => each.version).join(', ')}.`,
          })
        return addVersion(session, tenant.id, current, wanted, current.verify_jwt)
      })
    },

    async remove(projectId: string, name: string): Promise<void> {
      const tenant = await owner.tenant(projectId)
      const removed = await change(tenant, session => store.deleteFunction(session, tenant.id, name))
      if (removed === 0) throw notFound(name)
      await logs.remove(tenant.id, source, name)
    },

    async logs(projectId: string, name: string, query: LogsQuery): Promise<{ logs: FunctionLog[] }> {
      const { id } = await owner.tenant(projectId)
      await find(id, name)
      const lines = await logs.read(id, {
        source,
        name,
        after: query.after,
        level: query.level,
        requestId: query.request_id,
        limit: Math.min(query.limit ?? logLimits.usual, logLimits.most),
      })
      return { logs: lines.map(toLog) }
    },
  }
}

const shown = ({
  id,
  name,
  version,
  verify_jwt,
  entrypoint,
  created_at,
  updated_at,
}: store.FunctionRow): EdgeFunction => ({
  id,
  name,
  slug: name,
  status: 'ACTIVE',
  version,
  verify_jwt,
  entrypoint,
  created_at,
  updated_at,
})

type StoredLine = Awaited<ReturnType<LogsService['read']>>[number]

function toLog({ id, at, level, event, message, request_id, facts }: StoredLine): FunctionLog {
  const number = (name: string) => (typeof facts[name] === 'number' ? (facts[name] as number) : null)
  return {
    id,
    timestamp: at,
    level: level as FunctionLog['level'],
    event: event as FunctionLog['event'],
    message,
    version: number('version'),
    request_id,
    status: number('status'),
    duration_ms: number('duration_ms'),
    is_cold: typeof facts['is_cold'] === 'boolean' ? facts['is_cold'] : null,
    memory_mb: number('memory_mb'),
  }
}

async function readFiles(root: string): Promise<Files> {
  const files: Files = Object.create(null)
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const bytes = await readFile(path)
    const text = bytes.toString('utf8')
    files[path.slice(root.length + 1)] = Buffer.from(text).equals(bytes)
      ? text
      : { base64: bytes.toString('base64') }
  }
  return files
}

const notFound = (name: string) =>
  new Refusal('function_not_found', `The project has no function ${JSON.stringify(name)}`)
const exists = (name: string) =>
  new Refusal(
    'function_exists',
    `The project has a function ${JSON.stringify(name)}; deploy a new version with PUT`,
  )
