// Users of the projects' applications: every way to sign in, and what can be done once somebody has.

import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import { createAdmin } from './admin.ts'
import { createCurrentSession } from './current-session.ts'
import { createPruneEvents } from './events.ts'
import { guarded } from './guarded.ts'
import { createImport } from './import/service.ts'
import { createLimits } from './limits.ts'
import { createLogout } from './logout.ts'
import { createByMail } from './mail/by-mail.ts'
import { createGenerateLink } from './mail/generate-link.ts'
import { oneTimeHash } from './mail/one-time-code.ts'
import { createVerify } from './mail/verify.ts'
import { createManagedUsers } from './managed-users.ts'
import { createMfa } from './mfa/service.ts'
import { callbackUrl } from './oauth/authorize.ts'
import { oauthService, oauthTemplates } from './oauth/service.ts'
import type { AuthParts } from './parts.ts'
import { publicSettings } from './public-settings.ts'
import { createRefresh } from './refresh.ts'
import { authSettingsFrom, settingsOf } from './settings.ts'
import { createPasswordSignIn } from './sign-in.ts'
import { createSignUp } from './sign-up.ts'
import { createTokens } from './tokens.ts'
import { createUserUpdate } from './user-update.ts'

export type AuthDeps = Pick<AuthParts, 'databases' | 'email' | 'passwords' | 'sealer' | 'baseUrl' | 'log'> & {
  windows: RateWindows
  deriveKey: DeriveKey
  outbound: Outbound
  directory: Pick<Directory, 'find'>
}

export type AuthService = ReturnType<typeof authService>

export function authService({ windows, deriveKey, outbound, directory, ...given }: AuthDeps) {
  const parts: AuthParts = {
    ...given,
    databases: guarded(given.databases),
    limits: createLimits(windows),
    tokens: createTokens(deriveKey, given.baseUrl),
    hashOneTime: oneTimeHash(deriveKey),
  }
  const oauth = oauthService({ ...parts, outbound })
  return {
    databases: parts.databases,
    pruneEvents: createPruneEvents(parts.databases, directory, parts.log),
    currentSession: createCurrentSession(parts.databases),
    publicSettings: (tenant: Tenant) => publicSettings(tenant, oauth.enabled(tenant)),
    signUp: createSignUp(parts),
    signInWithPassword: createPasswordSignIn(parts),
    refresh: createRefresh(parts),
    byMail: createByMail(parts),
    verify: createVerify(parts),
    user: createUserUpdate(parts),
    logout: createLogout(parts.databases),
    admin: createAdmin(parts),
    generateLink: createGenerateLink(parts),
    mfa: createMfa(parts),
    oauth,
    // For the management plane, which knows users and settings from outside.
    managed: createManagedUsers(parts.databases),
    // It looks for the record that Postgres complains about, and so needs the complaint itself.
    importUsers: createImport(given.databases),
    settingsOf,
    settingsFrom: authSettingsFrom,
    providerTemplates: oauthTemplates,
    callbackUrl: (tenant: Tenant) => callbackUrl(parts.baseUrl(), tenant),
  }
}
