// Whether signed-in users may link and unlink identities. Sign-ins with a verified address link without this setting.
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { settingsOf } from '../settings.ts'

export function requireManualLinking(tenant: Tenant): void {
  if (!settingsOf(tenant).manual_linking_enabled)
    throw new Refusal('manual_linking_disabled', 'Manual linking is disabled', {
      hint: 'An administrator can switch on "manual_linking_enabled" in the auth settings of the project.',
    })
}
