// Projects: create, read, update, suspend, resume, delete, and their keys.
import type {
  CreatedProject,
  ExposureWarning,
  Project,
  ProjectDetails,
  Quotas,
  UpdatedProject,
} from '@plinth/contract/projects.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type Actor, isOperator, ownerIdOf, visibleProjects } from '#src/planes/management/actor.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { OpenTables } from '#src/services/rls/service.ts'
import {
  type CredentialColumn,
  credentialContext,
  newAnonKey,
  newJwtSecret,
  newServiceRoleKey,
} from '#src/tenancy/credentials.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { exposedSchemasFrom } from '#src/tenancy/exposed-schemas.ts'
import type { Lifecycle } from '#src/tenancy/lifecycle.ts'
import { insertNewProject } from '#src/tenancy/new-project.ts'
import { mergeSettings, redact, sealSettings } from '#src/tenancy/settings-secrets.ts'
import { deleteKeys } from '#src/tenancy/signing-keys-store.ts'
import { notChecked, warningsAbout } from './exposure-warnings.ts'
import { checkSettings, checkSize } from './settings.ts'
import * as store from './store.ts'

export interface ProjectsDeps {
  control: Database
  directory: Directory
  lifecycle: Lifecycle
  sealer: Sealer
  baseUrl(): string
  storageBytes(id: string): Promise<number>
  databaseBytes(id: string): Promise<number | null>
  /** The tables of these schemas without row-level security. */
  openTables(id: string, schemas: readonly string[]): Promise<OpenTables[]>
  log: Log
  /** Throws a refusal for settings that a service cannot use. */
  checkServiceSettings(settings: Readonly<Record<string, unknown>>): void
}

export interface ProjectChange {
  name?: string
  description?: string
  settings?: Record<string, unknown>
  quotas?: Quotas
}

export type ProjectsService = ReturnType<typeof projectsService>

export function projectsService(deps: ProjectsDeps) {
  const { control, directory, lifecycle, sealer, baseUrl, storageBytes, databaseBytes, log } = deps
  const seal = (id: string, column: CredentialColumn, plain: string) =>
    sealer.seal(plain, credentialContext(id, column))

  const toProject = (row: store.ProjectRow): Project => ({
    ...row,
    settings: redact(row.settings),
    anon_key: sealer.open(row.anon_key, credentialContext(row.id, 'anon_key')),
    api_url: `${baseUrl()}/v1/${row.id}`,
  })

  const requireProject = (row: store.ProjectRow | undefined): Project => toProject(row ?? throwNotFound())

  async function setStatus(id: string, status: 'active' | 'suspended'): Promise<Project> {
    const row = await store.setStatus(control, id, status)
    directory.forget(id)
    return requireProject(row)
  }

  /** The setting is saved, so a failure here must not fail the request. */
  const warningsOnExposure = (id: string, schemas: readonly string[]): Promise<ExposureWarning[]> =>
    deps.openTables(id, schemas).then(warningsAbout, error => {
      log.warn({ err: error, project: id }, 'Could not look for tables without row-level security')
      return [notChecked]
    })

  return {
    async create(
      actor: Actor,
      request: ProjectChange & { name: string; slug?: string },
    ): Promise<CreatedProject> {
      checkSettings(request.settings ?? {})
      deps.checkServiceSettings(request.settings ?? {})
      const id = crypto.randomUUID()
      const { settings } = sealSettings(mergeSettings({}, request.settings ?? {}), id, sealer)
      checkSize(settings, request.settings ?? {})
      const plan = {
        id,
        name: request.name.trim(),
        slug: request.slug,
        description: request.description ?? '',
        settings,
        quotas: mergeQuotas({}, request.quotas ?? {}),
        ownerId: ownerIdOf(actor),
      }
      const { keys } = await insertNewProject(sealer, plan, lifecycle.create)
      directory.forget(id)
      return { ...requireProject(await store.findProject(control, id)), ...keys }
    },

    async list(actor: Actor, status: string | undefined, page: Paging) {
      const { rows, total } = await store.listProjects(control, { status, ids: visibleProjects(actor) }, page)
      return { projects: rows.map(toProject), total, ...page }
    },

    async read(id: string): Promise<ProjectDetails> {
      const [row, storage_bytes, database_bytes] = await Promise.all([
        store.findProject(control, id),
        storageBytes(id),
        databaseBytes(id),
      ])
      return { ...requireProject(row), storage_bytes, database_bytes }
    },

    async update(actor: Actor, id: string, change: ProjectChange): Promise<UpdatedProject> {
      if (change.quotas && !isOperator(actor)) throw quotasNeedOperator()
      checkSettings(change.settings ?? {})
      deps.checkServiceSettings(change.settings ?? {})
      const saved = await control.transaction(async session => {
        const row = await store.lockProject(session, id)
        if (!row) return
        const merged = mergeSettings(row.settings, change.settings ?? {})
        const { settings } = sealSettings(merged, id, sealer)
        checkSize(settings, change.settings ?? {})
        return store.saveProject(session, {
          id,
          name: change.name?.trim() ?? row.name,
          description: change.description ?? row.description,
          settings,
          quotas: mergeQuotas(row.quotas, change.quotas ?? {}),
        })
      })
      directory.forget(id)
      const project = requireProject(saved)
      const exposed = change.settings?.['exposed_schemas']
      if (exposed === undefined) return project
      return { ...project, warnings: await warningsOnExposure(id, exposedSchemasFrom(exposed)) }
    },

    async remove(id: string): Promise<void> {
      await lifecycle.remove(id)
      directory.forget(id)
    },

    suspend: (id: string) => setStatus(id, 'suspended'),
    resume: (id: string) => setStatus(id, 'active'),

    async revealServiceRoleKey(id: string) {
      const { value } = (await store.findCredential(control, id, 'service_role_key')) ?? throwNotFound()
      return { service_role_key: sealer.open(value, credentialContext(id, 'service_role_key')) }
    },

    async rotateJwtSecret(id: string) {
      const secret = newJwtSecret()
      await control.transaction(async session => {
        const changed = await store.replaceJwtSecret(session, id, seal(id, 'jwt_secret', secret))
        if (changed === 0) throwNotFound()
        await deleteKeys(session, id)
      })
      directory.forget(id)
      return { jwt_secret: secret }
    },

    async rotateApiKeys(id: string) {
      const { slug } = (await store.findProject(control, id)) ?? throwNotFound()
      const keys = { anon_key: newAnonKey(slug), service_role_key: newServiceRoleKey(slug) }
      const changed = await store.replaceKeys(
        control,
        id,
        seal(id, 'anon_key', keys.anon_key),
        seal(id, 'service_role_key', keys.service_role_key),
      )
      if (changed === 0) throwNotFound()
      directory.forget(id)
      return keys
    },
  }
}

function throwNotFound(): never {
  throw new Refusal('project_not_found', 'No project has this id')
}

const quotasNeedOperator = () =>
  new Refusal(
    'quota_not_yours',
    'Quotas are set by the operator of the platform; this needs a super_admin, or a token with admin scope on the platform. Nothing was changed',
  )

function mergeQuotas(stored: Record<string, unknown>, change: Quotas): Record<string, unknown> {
  const merged = { ...stored, ...change }
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null))
}
