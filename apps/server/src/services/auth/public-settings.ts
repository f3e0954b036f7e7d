import type { Tenant } from '#src/tenancy/directory.ts'
import { settingsOf } from './settings.ts'

/** Settings for a sign-in page. Everyone with an API key can read them, so they must hold no secret. */
export function publicSettings(tenant: Tenant, providers: Record<string, boolean>) {
  const { email_enabled, magic_link_enabled, anonymous_enabled, signup_enabled, auto_confirm, mfa_enabled } =
    settingsOf(tenant)
  return {
    external: {
      anonymous_users: anonymous_enabled,
      email: email_enabled || magic_link_enabled,
      phone: false,
      ...providers,
      azure: providers['microsoft'] ?? false,
    },
    disable_signup: !signup_enabled,
    mailer_autoconfirm: auto_confirm,
    phone_autoconfirm: false,
    sms_provider: '',
    mfa_enabled,
    saml_enabled: false,
    passkeys_enabled: false,
  }
}
