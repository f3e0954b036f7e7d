// The grant types of POST /token.
import { Refusal } from '#src/kernel/errors.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from './client-info.ts'
import { phoneNotOffered } from './not-offered.ts'
import type { AuthService } from './service.ts'
import { invalidCredentials } from './sign-in-errors.ts'

type Text = string | null | undefined
interface PasswordGrant {
  email?: Text
  phone?: Text
  password?: Text
}
interface Grant extends PasswordGrant {
  refresh_token?: Text
  auth_code?: Text
  code_verifier?: Text
  provider?: Text
  id_token?: Text
  access_token?: Text
  nonce?: Text
  link_identity?: boolean | null | undefined
}

export function createGrants(auth: Pick<AuthService, 'signInWithPassword' | 'refresh' | 'oauth'>) {
  function password(tenant: Tenant, { email, phone, password: given }: PasswordGrant, client: ClientInfo) {
    if (phone && !email) throw phoneNotOffered()
    if (!email) throw new Refusal('validation_failed', 'missing email or phone')
    // A missing password gets the same answer as a wrong one.
    return auth.signInWithPassword(tenant, email.trim().toLowerCase(), given ?? '', client)
  }

  return {
    password,
    any(type: string | undefined, caller: Caller, body: Grant, client: ClientInfo) {
      switch (type) {
        case 'password':
          return password(caller.tenant, body, client)
        case 'refresh_token':
          if (!body.refresh_token) throw new Refusal('validation_failed', 'refresh_token required')
          return auth.refresh(caller.tenant, body.refresh_token, client)
        case 'pkce':
          return auth.oauth.exchangeCode(caller.tenant, body, client)
        case 'id_token':
          return auth.oauth.signInWithIdToken(caller, body, client)
        case 'web3':
          throw new Refusal('web3_provider_disabled', 'Sign-in with Web3 wallets is not offered')
        default:
          throw type ? invalidCredentialsFor(type) : invalidCredentials()
      }
    },
  }
}

const invalidCredentialsFor = (type: string) =>
  new Refusal('invalid_credentials', `unsupported_grant_type: "${type.slice(0, 40)}"`)
