// Management API for the users and the auth settings of a project.
import type { NamedProvider, ProviderInput } from '@plinth/contract/sign-in-providers.ts'
import type {
  AuthSettingsChange,
  Ban,
  RotatedSigningKey,
  ShownAuthSettings,
  User,
  UserInput,
} from '@plinth/contract/users.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { AuthService } from '#src/services/auth/service.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { redacted, sealSettings, settingsContext } from '#src/tenancy/settings-secrets.ts'
import { findSettings, lockSettings, type Settings, saveSettings } from '#src/tenancy/settings-store.ts'
import { throwManagementError } from './management-errors.ts'
import { shownProviders, storedSecret, withChange, withoutProvider, withProvider } from './stored-settings.ts'

export interface UsersDeps {
  control: Database
  sealer: Sealer
  owner: Pick<OwnerWork, 'tenant'>
  directory: Pick<Directory, 'forget'>
  auth: Pick<
    AuthService,
    | 'admin'
    | 'managed'
    | 'importUsers'
    | 'prepareSigning'
    | 'rotateSigningKey'
    | 'settingsOf'
    | 'settingsFrom'
    | 'providerTemplates'
    | 'callbackUrl'
  >
}

export type UsersService = ReturnType<typeof usersService>

export function usersService({ control, sealer, owner, directory, auth }: UsersDeps) {
  const shown = (settings: Settings, tenant: Tenant): ShownAuthSettings => ({
    ...auth.settingsFrom(settings),
    providers: shownProviders(settings, auth.callbackUrl(tenant)),
  })

  /** Locks the row, so that concurrent changes are not lost. */
  async function changeSettings(tenant: Tenant, change: (settings: Settings) => Settings): Promise<Settings> {
    const { id } = tenant
    const saved = await control.transaction(async session => {
      const { settings } = (await lockSettings(session, id)) ?? throwNoProject()
      const changed = sealSettings(change(settings), id, sealer).settings
      await saveSettings(session, id, changed)
      return changed
    })
    directory.forget(id)
    return saved
  }

  async function withTenant<T>(projectId: string, work: (tenant: Tenant) => Promise<T>): Promise<T> {
    return work(await owner.tenant(projectId)).catch(throwManagementError)
  }

  return {
    async readSettings(projectId: string): Promise<ShownAuthSettings> {
      const tenant = await owner.tenant(projectId)
      const { settings } = (await findSettings(control, tenant.id)) ?? throwNoProject()
      return shown(settings, tenant)
    },

    async changeSettings(projectId: string, change: AuthSettingsChange): Promise<ShownAuthSettings> {
      const tenant = await owner.tenant(projectId)
      const saved = await changeSettings(tenant, settings => {
        const changed = withChange(settings, change)
        const { site_url: site } = change
        if (site && auth.settingsFrom(changed).site_url !== site)
          throw new Refusal('invalid_request', 'Field "site_url" must be an address that browsers can go to')
        return changed
      })
      if (change.jwt_algorithm !== undefined) await auth.prepareSigning(tenant.id)
      return shown(saved, tenant)
    },

    rotateSigningKey: async (projectId: string): Promise<RotatedSigningKey> =>
      auth.rotateSigningKey((await owner.tenant(projectId)).id),

    async saveProvider(projectId: string, request: ProviderInput): Promise<NamedProvider> {
      const tenant = await owner.tenant(projectId)
      const { provider, client_secret: given } = request
      const saved = await changeSettings(tenant, settings => {
        if (given !== undefined && given !== redacted)
          // Always sealed, because a secret could begin with the prefix of sealed values.
          return withProvider(
            settings,
            request,
            given ? sealer.seal(given, settingsContext(tenant.id)) : null,
          )
        const storedClientSecret = storedSecret(settings, provider)
        if (storedClientSecret === undefined)
          throw new Refusal(
            'invalid_request',
            `Field "client_secret" is needed: no ${provider} is stored yet`,
          )
        return withProvider(settings, request, storedClientSecret)
      })
      return { provider, ...shown(saved, tenant).providers[provider]! }
    },

    async removeProvider(projectId: string, provider: string): Promise<void> {
      const tenant = await owner.tenant(projectId)
      await changeSettings(
        tenant,
        settings =>
          withoutProvider(settings, provider) ??
          throwNotFound('provider_not_found', 'The project has no provider of this name'),
      )
    },

    listProviderTemplates({ limit, offset }: Paging) {
      const all = auth.providerTemplates()
      return { templates: all.slice(offset, offset + limit), total: all.length, limit, offset }
    },

    list: (projectId: string, search: string | undefined, page: Paging) =>
      withTenant(projectId, async tenant => ({
        ...(await auth.managed.list(tenant, search?.trim(), page)),
        ...page,
      })),

    create: (projectId: string, request: UserInput): Promise<User> =>
      withTenant(projectId, async tenant => {
        const isConfirmed = request.email_confirm ?? auth.settingsOf(tenant).auto_confirm
        const { id } = await auth.admin.create(tenant, { ...request, email_confirm: isConfirmed })
        return auth.managed.read(tenant, id)
      }),

    read: (projectId: string, userId: string): Promise<User> =>
      withTenant(projectId, tenant => auth.managed.read(tenant, userId)),

    remove: (projectId: string, userId: string): Promise<void> =>
      withTenant(projectId, tenant => auth.admin.remove(tenant, userId, false)),

    ban: (projectId: string, userId: string, ban: Ban): Promise<User> =>
      withTenant(projectId, tenant => auth.managed.ban(tenant, userId, ban)),

    unban: (projectId: string, userId: string): Promise<User> =>
      withTenant(projectId, tenant => auth.managed.unban(tenant, userId)),

    listSessions: (projectId: string, userId: string, page: Paging) =>
      withTenant(projectId, async tenant => ({
        ...(await auth.managed.sessions(tenant, userId, page)),
        ...page,
      })),

    revokeSessions: (projectId: string, userId: string): Promise<void> =>
      withTenant(projectId, tenant => auth.managed.revokeSessions(tenant, userId)),

    revokeSession: (projectId: string, userId: string, sessionId: string): Promise<void> =>
      withTenant(projectId, tenant => auth.managed.revokeSession(tenant, userId, sessionId)),

    importUsers: (projectId: string, records: readonly unknown[]) =>
      withTenant(projectId, tenant => auth.importUsers(tenant, records)),
  }
}

function throwNotFound(code: 'provider_not_found' | 'project_not_found', message: string): never {
  throw new Refusal(code, message)
}
const throwNoProject = () => throwNotFound('project_not_found', 'No project has this id')
