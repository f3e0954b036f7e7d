// The unmodified client: sign-in with a real OpenID provider, and identities.
import { idTokenTests } from './supabase-js/auth-id-tokens.ts'
import { identityTests } from './supabase-js/auth-identities.ts'
import { providerTests } from './supabase-js/auth-providers.ts'
import { authSuite } from './supabase-js/auth-suite.ts'

authSuite('providers', [providerTests, identityTests, idTokenTests])
