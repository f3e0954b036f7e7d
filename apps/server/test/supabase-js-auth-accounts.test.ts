// The unmodified client: sign-up and sign-in.
import { anonymousTests } from './supabase-js/auth-anonymous.ts'
import { confirmationTests } from './supabase-js/auth-confirmation.ts'
import { signInTests } from './supabase-js/auth-sign-in.ts'
import { signUpTests } from './supabase-js/auth-sign-up.ts'
import { authSuite } from './supabase-js/auth-suite.ts'
import { unsupportedTests } from './supabase-js/auth-unsupported.ts'

authSuite('accounts', [signUpTests, confirmationTests, anonymousTests, signInTests, unsupportedTests])
