// Users of the projects' applications: sign-up, sign-in, sessions, account changes and the admin API.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { Outbox } from '#src/tenancy/outbox.ts'
import type { SigningKeys } from '#src/tenancy/signing-keys.ts'
import { createAdmin } from './admin.ts'
import { createCurrentSession } from './current-session.ts'
import { translateDatabaseErrors } from './database-errors.ts'
import { createPruneEvents } from './event-pruning.ts'
import type { FlowDeps } from './flow-deps.ts'
import { createImport } from './import/service.ts'
import { createLogout } from './logout.ts'
import { createGenerateLink } from './mail/generate-link.ts'
import { createMailRequests } from './mail/mail-requests.ts'
import { oneTimeHash } from './mail/one-time-code.ts'
import { createVerify } from './mail/verify.ts'
import { createManagedUsers } from './managed-users.ts'
import { createMfa } from './mfa/service.ts'
import { callbackUrl } from './oauth/authorize.ts'
import { oauthService, oauthTemplates } from './oauth/service.ts'
import { relayAfterCommit } from './outbox-relay.ts'
import { createPasswordSignIn } from './password-sign-in.ts'
import { createPublicKeys } from './public-keys.ts'
import { publicSettings } from './public-settings.ts'
import { createLimits } from './rate-limits.ts'
import { createRefresh } from './refresh.ts'
import { authSettingsFrom, settingsOf } from './settings.ts'
import { createSignUp } from './sign-up.ts'
import { createPrepareSigning, createRotateSigningKey } from './signing-key-changes.ts'
import { createTokens } from './tokens.ts'
import { createUserUpdate } from './user-update.ts'

export type AuthDeps = Pick<FlowDeps, 'databases' | 'email' | 'passwords' | 'sealer' | 'baseUrl' | 'log'> & {
  windows: RateWindows
  deriveKey: DeriveKey
  outbound: Outbound
  directory: Pick<Directory, 'find' | 'read'>
  signingKeys: SigningKeys
  outbox: Pick<Outbox, 'relayWritten'>
}

export type AuthService = ReturnType<typeof authService>

export function authService(deps: AuthDeps) {
  const { windows, deriveKey, outbound, directory, outbox, signingKeys, ...given } = deps
  const flowDeps: FlowDeps = {
    ...given,
    databases: relayAfterCommit(translateDatabaseErrors(given.databases), outbox),
    limits: createLimits(windows),
    tokens: createTokens(deriveKey, given.baseUrl, signingKeys),
    hashOneTime: oneTimeHash(deriveKey),
  }
  const oauth = oauthService({ ...flowDeps, outbound })
  return {
    databases: flowDeps.databases,
    pruneEvents: createPruneEvents(flowDeps.databases, directory, flowDeps.log),
    currentSession: createCurrentSession(flowDeps.databases),
    publicKeys: createPublicKeys(directory),
    publicSettings: (tenant: Tenant) => publicSettings(tenant, oauth.enabled(tenant)),
    signUp: createSignUp(flowDeps),
    signInWithPassword: createPasswordSignIn(flowDeps),
    refresh: createRefresh(flowDeps),
    mailRequests: createMailRequests(flowDeps),
    verify: createVerify(flowDeps),
    user: createUserUpdate(flowDeps),
    logout: createLogout(flowDeps.databases),
    admin: createAdmin(flowDeps),
    generateLink: createGenerateLink(flowDeps),
    mfa: createMfa(flowDeps),
    oauth,
    // For the management API (services/users).
    managed: createManagedUsers(flowDeps.databases),
    // The import looks for the record that fails, so it needs the untranslated database error.
    importUsers: createImport(given.databases),
    prepareSigning: createPrepareSigning(directory, flowDeps.tokens),
    rotateSigningKey: createRotateSigningKey(signingKeys),
    settingsOf,
    settingsFrom: authSettingsFrom,
    providerTemplates: oauthTemplates,
    callbackUrl: (tenant: Tenant) => callbackUrl(flowDeps.baseUrl(), tenant),
  }
}
